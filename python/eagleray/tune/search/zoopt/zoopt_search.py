"""ZOOpt as a searcher, for those who have it installed."""

from __future__ import annotations

import importlib
import math
from typing import Any

from eagleray.tune.search._package import PackageSearcher, numbers_of, plain, refuse
from eagleray.tune.search.sample import Categorical
from eagleray.tune.search.searcher import Searcher

#: How fine numbers are that have no step.
_PRECISION = 1e-12


class ZOOptSearch(PackageSearcher):
    """Suggests what ZOOpt's asynchronous sequential racos suggests.

    Args:
        algo: "asracos"; ZOOpt has no other for this.
        budget: how many trials there will be; it must be `num_samples`.
        dim_dict: ZOOpt's dimensions by name, or a nested dict of domains; without it, the Tuner's space is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        parallel_num: how many trials are under way once the first ones have ended.
        **kwargs: what ZOOpt's `Parameter` is made with, such as `seed`.
    """

    _package = "zoopt"
    _pip = "zoopt"

    def __init__(
        self,
        algo: str = "asracos",
        budget: int | None = None,
        dim_dict: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        parallel_num: int = 1,
        **kwargs: Any,
    ) -> None:
        if algo.lower() != "asracos":
            raise ValueError(f"`algo` must be 'asracos', not {algo!r}")
        if budget is None:
            raise ValueError("`budget` is needed: how many trials there will be, as `num_samples` says")
        self._budget = budget
        self._parallel = parallel_num
        self._options = kwargs
        self._dropped: Any = None
        super().__init__(dim_dict, metric, mode, points_to_evaluate, kwargs.get("seed"))

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any]) -> dict[str, Any]:
        """A nested dict of domains as ZOOpt has it."""
        return _dimensions(cls._imported().ValueType, cls._convert(spec).params)

    def _is_own(self, space: Any) -> bool:
        kinds = vars(self._library.ValueType).values()
        values = space.values() if isinstance(space, dict) else ()
        return any(isinstance(value, tuple) and value and value[0] in kinds for value in values)

    def _make(self) -> Any:
        kinds = self._library.ValueType
        dims = self._space if self._converted is None else _dimensions(kinds, self._converted.params)
        self._names = list(dims)
        parameter = self._library.Parameter(budget=self._budget, **{"seed": self.seed % 2**32, **self._options})
        racos = importlib.import_module("zoopt.algos.opt_algorithms.racos.sracos")
        # It draws from Python's and numpy's hidden sources.
        importlib.import_module("random").seed(self.seed)
        importlib.import_module("numpy").random.seed(self.seed % 2**32)
        over = self._library.Dimension2([tuple(dims[name]) for name in self._names])
        return racos.SRacosTune(dimension=over, parameter=parameter, parallel_num=self._parallel)

    def _next(self) -> Any:
        asked = self._optimizer.suggest()
        if asked is None:
            # It says so once between its first trials and the rest, whether or not some of them are under way.
            asked = self._optimizer.suggest()
        if asked is None:
            return None
        if isinstance(asked, str):
            return Searcher.FINISHED
        found = [plain(value) for value in asked.get_x()]
        if self._converted is None:
            return asked, dict(zip(self._names, found, strict=True))
        return asked, [_taken(param, value) for param, value in zip(self._converted.params, found, strict=True)]

    def _give(self, point: Any) -> Any:
        """A point of its own asking, moved: it counts how many it asked for."""
        asked, self._dropped = self._dropped, None
        if asked is None:
            asked = self._optimizer.suggest()
        if asked is None or isinstance(asked, str):
            asked = self._library.Solution(x=[])
            self._optimizer.live_num += 1
        if self._converted is None:
            asked.set_x([point[name] for name in self._names])
        else:
            pairs = zip(self._converted.params, point, strict=True)
            asked.set_x([_told(param, value) for param, value in pairs])
        return asked

    def _drop(self, asked: Any) -> None:
        self._dropped = asked

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        # It waits for all of its first trials, also for those that failed.
        self._optimizer.complete(asked, math.inf if loss is None else loss)


def _taken(param: Any, value: Any) -> Any:
    if isinstance(param.domain, Categorical):
        return int(value)
    kind, low, high, _ = numbers_of(param)
    if kind.startswith("log_"):
        value = math.exp(value)
    value = min(max(value, low), high)
    return round(value) if kind.endswith("int") else value


def _told(param: Any, value: Any) -> Any:
    if isinstance(param.domain, Categorical):
        return value or 0
    kind, low, _, _ = numbers_of(param)
    value = low if value is None else value
    return math.log(value) if kind.startswith("log_") else value


def _dimensions(kinds: Any, params: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for param in params:
        if isinstance(param.domain, Categorical):
            found[param.name] = (kinds.GRID, list(range(len(param.branches))))
            continue
        kind, low, high, step = numbers_of(param)
        if kind == "normal":
            refuse("ZOOptSearch", param, "ZOOpt draws from ranges: give `tune.uniform`.")
        if kind.startswith("log_"):
            found[param.name] = (kinds.CONTINUOUS, [math.log(low), math.log(high)], _PRECISION)
        elif kind == "int":
            found[param.name] = (kinds.DISCRETE, [int(low), int(high)], True)
        else:
            found[param.name] = (kinds.CONTINUOUS, [low, high], step or _PRECISION)
    return found
