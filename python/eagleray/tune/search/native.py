"""Searchers that need nothing installed: random, Sobol, TPE, CMA-ES, Gaussian process. Their brains are native.

All they do follows from their seed and from what they are told. So their state is what they were told: saved, and told
again to take it up. What they once suggested is told as well, so that they need not think again.
"""

from __future__ import annotations

import math
from typing import Any

from eagleray.tune.metrics import look_up
from eagleray.tune.search._draw import fresh_seed
from eagleray.tune.search._native import Search
from eagleray.tune.search._space import ConvertedSpace
from eagleray.tune.search.searcher import Searcher
from eagleray.tune.search.variant_generator import generate_variants, preset_variants


class NativeSearcher(Searcher):
    """What all native searchers have in common.

    Args:
        space: a nested dict of domains, as for a `Tuner`; without one, the Tuner's is taken.
        metric: what is optimised; without one, the Tuner's.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with. What one does not say is drawn.
        seed: decides everything that is drawn; without one, what the program seeded itself decides.
    """

    _kind = ""
    _needs_metric = True

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
        **options: float | None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        if points_to_evaluate is not None and not isinstance(points_to_evaluate, list | tuple):
            raise TypeError(f"points_to_evaluate expected to be a list, got {type(points_to_evaluate)}.")
        self.seed = fresh_seed() if seed is None else int(seed)
        self._options = {name: float(value) for name, value in options.items() if value is not None}
        self._points = list(points_to_evaluate or [])
        self._space: dict[str, Any] | None = None
        self._events: list[tuple[Any, ...]] = []
        self._begin()
        if space:
            self._set_space(space)

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Hears of the experiment. False if it has a space already."""
        self._hear(metric, mode)
        if self._space is not None:
            return False
        self._set_space(config)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next configuration."""
        return None if self._is_full() else self._suggest_and_note(trial_id, None)

    def trace(self) -> Any:
        """The point that the latest suggestion is made of, and what it has left in the searcher."""
        return self._trace

    def retrace(self, trial_id: str, trace: Any) -> dict[str, Any] | None:
        """What it suggested in an earlier run, in no time."""
        return self._suggest_and_note(trial_id, trace)

    def _is_full(self) -> bool:
        """Whether as many trials are under way as there may be."""
        return False

    def _suggest_and_note(self, trial_id: str, trace: Any) -> dict[str, Any] | None:
        is_told = bool(self._metric and self._mode)
        self._refuse_without(space=self._converted is not None, metric=is_told or not self._needs_metric)
        config = self._suggest(trial_id, trace)
        self._events.append(("suggest", trial_id, self._trace))
        return config

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Hears an intermediate result."""
        value = self._value(result)
        if value is not None:
            self._note("report", trial_id, float(result.get("training_iteration", 0)), value)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Hears a trial's end. Without a number for the metric it counts as failed."""
        self._note("tell", trial_id, None if error else self._value(result))

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,  # noqa: FBT001, FBT002
        pruned: bool = False,  # noqa: FBT001, FBT002
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learns from a configuration that was tried elsewhere, if it lies in the space."""
        self._refuse_without(space=self._converted is not None)
        self._note("add", parameters, None if error else self._signed(value), intermediate_values if pruned else None)

    def get_state(self) -> dict[str, Any]:
        """All that it was told."""
        own = ("seed", "_options", "_points", "_space", "_events", "_metric", "_mode")
        return {name: vars(self)[name] for name in own}

    def set_state(self, state: dict[str, Any]) -> None:
        """Is told all that again."""
        vars(self).update(state)
        self._events = list(state["_events"])
        self._begin()
        if self._space is not None:
            self._set_space(self._space)
        for event in self._events:
            self._take(*event)

    __getstate__ = get_state
    __setstate__ = set_state

    def _begin(self) -> None:
        self._converted: ConvertedSpace | None = None
        self._search: Search | None = None
        self._numbers: dict[str, int] = {}
        self._count = 0
        self._trace: Any = None

    def _set_space(self, space: dict[str, Any]) -> None:
        self._space = space
        self._converted = ConvertedSpace(space, who=type(self).__name__)
        self._search = Search(self._kind, self._converted.native(), self.seed, self._options)

    def _note(self, *event: Any) -> None:
        self._events.append(event)
        self._take(*event)

    def _take(self, kind: str, *details: Any) -> None:
        if kind == "suggest":
            self._suggest(*details)
        elif kind == "report":
            trial_id, step, value = details
            if self._search is not None and trial_id in self._numbers:
                self._search.report(self._numbers[trial_id], step, value)
        elif kind == "tell":
            trial_id, value = details
            if self._search is not None and trial_id in self._numbers:
                self._search.tell(self._numbers.pop(trial_id), value)
        else:
            self._add(*details)

    def _suggest(self, trial_id: str, trace: Any = None) -> dict[str, Any] | None:
        assert self._search is not None
        assert self._converted is not None
        number = self._number()
        self._numbers[trial_id] = number
        self._trace = None
        if number < len(self._points):
            return self._point(number)
        values = self._answer(self._search, number, trace)
        if values is None:
            return None
        config = self._converted.build(values)
        if self._converted.has_functions:
            # What chance a function has is of its own making; everything else is known here.
            _, spec = next(iter(generate_variants({"config": config}, random_state=self.seed + number)))
            config = spec["config"]
        return config

    def _answer(self, search: Search, number: int, trace: Any) -> list[Any] | None:
        """The values of the next point: known, or asked for."""
        if trace is not None:
            values: list[Any] | None
            values, residue = trace
            # One that does not lie in the space is of another space than the one that is searched now.
            if values is not None and search.retrace(number, values, residue):
                self._trace = trace
                return values
        values = search.ask(number)
        self._trace = None if values is None else (values, search.residue())
        return values

    def _point(self, number: int) -> dict[str, Any]:
        assert self._search is not None
        assert self._converted is not None
        variants = preset_variants({"config": self._space}, self._points[number], random_state=self.seed + number)
        _, spec = next(iter(variants))
        config: dict[str, Any] = spec["config"]
        values = self._converted.parse(config)
        if values is not None:
            self._search.adopt(number, values)
        return config

    def _add(self, parameters: dict[str, Any], value: float | None, reports: list[float] | None) -> None:
        assert self._search is not None
        assert self._converted is not None
        values = self._converted.parse(parameters)
        # Numbers above those of trials, which decide how many points were given.
        number = 2**40 + len(self._events)
        if values is None or not self._search.adopt(number, values):
            return
        if reports:
            self._search.report(number, float(len(reports)), reports[-1])
            self._search.prune(number)
        else:
            self._search.tell(number, value)

    def _number(self) -> int:
        self._count += 1
        return self._count - 1

    def _value(self, result: dict[str, Any] | None) -> float | None:
        """The metric, the less the better; None if there is no such number."""
        found = metric_of(result, self._metric)
        return None if found is None else self._signed(found)

    def _signed(self, value: float) -> float | None:
        if not math.isfinite(value):
            return None
        return -float(value) if self._mode == "max" else float(value)


def metric_of(result: dict[str, Any] | None, metric: Any) -> float | None:
    """A metric of a result, be it `a/b` or nested; None if it is not there or no finite number."""
    if not result or not isinstance(metric, str):
        return None
    try:
        number = float(look_up(result, metric))
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


class RandomSearch(NativeSearcher):
    """Draws every configuration anew."""

    _kind = "random"
    _needs_metric = False


class SobolSearch(NativeSearcher):
    """Spreads configurations evenly: a Sobol sequence, scrambled by the seed."""

    _kind = "sobol"
    _needs_metric = False


class TPESearch(NativeSearcher):
    """Tree-structured Parzen estimators: good for any space, also with conditions, and for thousands of trials.

    Args:
        space: see `NativeSearcher`, as the next four.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        seed: decides everything that is drawn.
        multivariate: whether parameters that count together are drawn together.
        n_startup_trials: how many random trials come first.
        n_ei_candidates: how many points are compared for each suggestion.
    """

    _kind = "tpe"

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
        *,
        multivariate: bool = True,
        n_startup_trials: int | None = None,
        n_ei_candidates: int | None = None,
    ) -> None:
        super().__init__(
            space,
            metric,
            mode,
            points_to_evaluate,
            seed,
            multivariate=multivariate,
            startup_trials=n_startup_trials,
            candidates=n_ei_candidates,
        )


class CMAESSearch(NativeSearcher):
    """CMA-ES: good for numbers, many trials, and functions that are hard to model.

    Args:
        space: see `NativeSearcher`, as the next four.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        seed: decides everything that is drawn.
        popsize: how many trials make a generation; by default 4 + 3 ln(dimensions).
        sigma0: the first generation's deviation as a share of each range; by default a sixth.
    """

    _kind = "cma"

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
        *,
        popsize: int | None = None,
        sigma0: float | None = None,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate, seed, population=popsize, deviation=sigma0)


class GPSearch(NativeSearcher):
    """Bayesian optimisation with a Gaussian process: good for some dozens to hundreds of costly trials.

    Args:
        space: see `NativeSearcher`, as the next four.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        seed: decides everything that is drawn.
        n_startup_trials: how many random trials come first.
    """

    _kind = "gp"

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
        *,
        n_startup_trials: int | None = None,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate, seed, startup_trials=n_startup_trials)
