"""Bayesian optimisation by the package bayesian-optimization as a searcher, for those who have it installed."""

from __future__ import annotations

import math
from typing import Any

from eagleray.tune.search._package import PackageSearcher, numbers_of, refuse
from eagleray.tune.search.sample import Float
from eagleray.tune.search.searcher import Searcher

#: Two configurations that agree in so many digits are the same.
_DIGITS = 5
#: Without a `patience` it is over when one has come up so often with nothing under way.
_ALWAYS_THE_SAME = 1000


class BayesOptSearch(PackageSearcher):
    """Suggests what `bayes_opt` suggests. Its parameters are numbers between two ends; logarithmic ones are searched by their logarithm.

    Args:
        space: a nested dict of domains, or `{"name": (low, high)}`; without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        utility_kwargs: `kind` ("ucb", "ei" or "poi"), `kappa`, `xi` of the acquisition function.
        random_state: decides everything that is drawn.
        random_search_steps: how many random trials come first.
        verbose: has no effect; here because of Ray's signature.
        patience: how often one configuration may come up, with nothing under way, before the search is over.
        skip_duplicate: whether a configuration that was tried is not tried again.
        analysis: an analysis of an earlier experiment to learn from.
    """

    _package = "bayes_opt"
    _pip = "bayesian-optimization"

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        utility_kwargs: dict[str, Any] | None = None,
        random_state: int = 42,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int | None = 5,
        skip_duplicate: bool = True,  # noqa: FBT001, FBT002
        analysis: Any = None,
    ) -> None:
        if patience is not None and patience <= 0:
            raise AssertionError("patience must be at least 1")
        self._utility = {"kind": "ucb", "kappa": 2.576, "xi": 0.0, **(utility_kwargs or {})}
        self._random_steps = random_search_steps
        self._patience = patience
        self._skips = skip_duplicate
        self._analysis = analysis
        self._seen: dict[tuple[float, ...], int] = {}
        #: Until there are so many, it draws at random because it has been told nothing.
        self._held: list[tuple[Any, float]] = []
        #: How many results it was told, and how many it had been told when it had nothing new to say.
        self._told = 0
        self._stuck_at = -1
        super().__init__(space, metric, mode, points_to_evaluate, random_state)

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any], join: bool = False) -> dict[str, tuple[float, float]]:  # noqa: FBT001, FBT002
        """A nested dict of domains as the package has it: bounds by name."""
        return _bounds(cls._convert(spec).params)

    def _is_own(self, space: Any) -> bool:
        return isinstance(space, dict) and all(
            isinstance(ends, tuple | list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends)
            for ends in space.values()
        )

    def _make(self) -> Any:
        bounds = self._space if self._converted is None else _bounds(self._converted.params)
        given: dict[str, Any] = {"random_state": self.seed, "verbose": 0, "allow_duplicate_points": True}
        acquisition = getattr(self._library, "acquisition", None)
        if acquisition is not None:
            given["acquisition_function"] = self._acquisition(acquisition)
        made = self._library.BayesianOptimization(f=None, pbounds=bounds, **given)
        if self._analysis is not None:
            earlier, self._analysis, self._optimizer = self._analysis, None, made
            self.add_evaluated_trials(earlier, self._metric)
        return made

    def _acquisition(self, acquisition: Any) -> Any:
        """As versions from 2 on have it."""
        kind = self._utility["kind"]
        if kind == "ucb":
            return acquisition.UpperConfidenceBound(kappa=self._utility["kappa"])
        made = acquisition.ExpectedImprovement if kind == "ei" else acquisition.ProbabilityOfImprovement
        return made(xi=self._utility["xi"])

    def _next(self) -> Any:
        if self._stuck_at == self._told and self._asked:
            return None
        while True:
            found = self._suggested()
            key = tuple(round(value, _DIGITS) for _, value in sorted(found.items()))
            if key in self._seen and self._skips and self._asked:
                # What is under way may change its mind; until then it would say the same.
                self._stuck_at = self._told
                return None
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] > (_ALWAYS_THE_SAME if self._patience is None else self._patience):
                return Searcher.FINISHED
            if self._seen[key] == 1 or not self._skips:
                return found, self._point_of(found)

    def _suggested(self) -> dict[str, float]:
        if hasattr(self._library, "acquisition"):
            found = self._optimizer.suggest()
        else:
            found = self._optimizer.suggest(self._library.UtilityFunction(**self._utility))
        return {name: float(value) for name, value in found.items()}

    def _point_of(self, found: dict[str, float]) -> Any:
        if self._converted is None:
            return found
        return [
            math.exp(found[param.name]) if numbers_of(param)[0].startswith("log_") else found[param.name]
            for param in self._converted.params
        ]

    def _give(self, point: Any) -> Any:
        if self._converted is None:
            return dict(point)
        return {
            param.name: math.log(value) if numbers_of(param)[0].startswith("log_") else float(value)
            for param, value in zip(self._converted.params, point, strict=True)
        }

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        self._told += 1
        if loss is None:
            return
        self._held.append((asked, -loss))
        if len(self._held) >= self._random_steps or len(self._optimizer.space):
            for params, target in self._held:
                self._optimizer.register(params=params, target=target)
            self._held = []


def _bounds(params: list[Any]) -> dict[str, tuple[float, float]]:
    found = {}
    for param in params:
        kind, low, high, _ = numbers_of(param) if isinstance(param.domain, Float) else ("", math.nan, math.nan, 0.0)
        if kind not in ("float", "log_float"):
            refuse("BayesOptSearch", param, "It takes `tune.uniform`, `tune.loguniform` and their quantized kinds.")
        found[param.name] = (math.log(low), math.log(high)) if kind == "log_float" else (low, high)
    return found
