"""The searcher of BOHB (Falkner 2018): it models the trials of the largest budget that enough of them have reached."""

from __future__ import annotations

from typing import Any

from eagleray.tune.search._native import Search
from eagleray.tune.search.native import NativeSearcher


class TuneBOHB(NativeSearcher):
    """Goes with the scheduler `HyperBandForBOHB`, which says what budget a result was reached with.

    Without that, a result's budget is its `training_iteration` when the trial ends.

    Args:
        space: see `NativeSearcher`, as `metric`, `mode`, `points_to_evaluate` and `seed`.
        bohb_config: `min_points_in_model` sets how many trials of a budget are enough to model it.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        seed: decides everything that is drawn.
        max_concurrent: how many trials may be under way; 0 for no limit.
    """

    _kind = "random"

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        bohb_config: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
        max_concurrent: int = 0,
    ) -> None:
        self._max_concurrent = max_concurrent
        self._min_points: int | None = (bohb_config or {}).get("min_points_in_model")
        super().__init__(space, metric, mode, points_to_evaluate, seed)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Sees to the limit itself."""
        self._max_concurrent = max_concurrent
        return True

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Learns what was reached with a budget, if the scheduler says which."""
        budget = (result.get("hyperband_info") or {}).get("budget")
        value = self._value(result)
        if budget is not None and value is not None:
            self._note("reached", trial_id, float(budget), value)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Learns what a trial came to."""
        value = None if error else self._value(result)
        if value is not None:
            info = (result or {}).get("hyperband_info") or {}
            budget = info.get("budget", (result or {}).get("training_iteration", 1))
            self._note("reached", trial_id, float(budget), value)
        self._note("done", trial_id)

    def on_pause(self, trial_id: str) -> None:
        """It takes up no place while it is paused."""
        self._note("done", trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """It takes up a place again."""
        self._note("again", trial_id)

    def get_state(self) -> dict[str, Any]:
        """All that it was told."""
        return super().get_state() | {"_max_concurrent": self._max_concurrent, "_min_points": self._min_points}

    __getstate__ = get_state

    def _begin(self) -> None:
        super()._begin()
        self._running: set[str] = set()
        self._values: dict[str, list[Any]] = {}
        self._models: dict[float, Search] = {}
        #: Budget to the trials whose value is known for it.
        self._reached: dict[float, set[str]] = {}

    def _is_full(self) -> bool:
        return bool(self._max_concurrent) and len(self._running) >= self._max_concurrent

    def _take(self, kind: str, *details: Any) -> None:
        if kind == "reached":
            self._learn(*details)
        elif kind == "done":
            self._running.discard(details[0])
        elif kind == "again":
            self._running.add(details[0])
        else:
            super()._take(kind, *details)

    def _suggest(self, trial_id: str, trace: Any = None) -> dict[str, Any] | None:
        assert self._converted is not None
        self._running.add(trial_id)
        model = self._model()
        if model is None or self._count < len(self._points):
            config = super()._suggest(trial_id, trace)
            values = None if config is None else self._converted.parse(config)
        else:
            number = self._number()
            self._numbers[trial_id] = number
            values = self._answer(model, number, trace)
            config = None if values is None else self._converted.build(values)
        if values is not None:
            self._values[trial_id] = values
        return config

    def _model(self) -> Search | None:
        """That of the largest budget which enough trials have reached."""
        assert self._converted is not None
        enough = self._min_points or len(self._converted.params) + 1
        budgets = [budget for budget, trials in self._reached.items() if len(trials) >= enough]
        return self._models[max(budgets)] if budgets else None

    def _learn(self, trial_id: str, budget: float, value: float) -> None:
        values = self._values.get(trial_id)
        if values is None or self._converted is None:
            return
        if budget not in self._models:
            # Its own random start is over: enough trials came before its first suggestion.
            options = {"startup_trials": 0.0}
            self._models[budget] = Search("tpe", self._converted.native(), self.seed + int(budget), options)
            self._reached[budget] = set()
        if trial_id in self._reached[budget]:
            return
        self._reached[budget].add(trial_id)
        number = 2**40 + self._numbers[trial_id]
        if self._models[budget].adopt(number, values):
            self._models[budget].tell(number, value)
