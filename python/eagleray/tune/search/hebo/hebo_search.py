"""HEBO as a searcher, for those who have it installed."""

from __future__ import annotations

import importlib
from typing import Any

from eagleray.tune.search._package import PackageSearcher, numbers_of, plain, refuse
from eagleray.tune.search.sample import Categorical


class HEBOSearch(PackageSearcher):
    """Suggests what HEBO suggests, in batches: the next one begins when the one before has ended.

    Args:
        space: a nested dict of domains, or a `DesignSpace` of HEBO's; without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        evaluated_rewards: values of `points_to_evaluate`, which are then not tried again.
        random_state_seed: decides everything that is drawn; it seeds numpy and torch.
        max_concurrent: how many trials are a batch.
        **kwargs: what HEBO is made with.
    """

    _package = "hebo"
    _pip = "HEBO"

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        evaluated_rewards: list[float] | None = None,
        random_state_seed: int | None = None,
        max_concurrent: int = 8,
        **kwargs: Any,
    ) -> None:
        if max_concurrent < 1:
            raise ValueError(f"max_concurrent must be a positive integer, not {max_concurrent!r}")
        self._is_seeded = random_state_seed is not None
        self._options = kwargs
        self._batch = max_concurrent
        self._rewards = list(evaluated_rewards or [])
        #: Points of the batch that nobody has tried yet.
        self._left: list[Any] = []
        super().__init__(space, metric, mode, points_to_evaluate, random_state_seed)

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any], prefix: str = "") -> Any:
        """A nested dict of domains as HEBO has it."""
        return _design(cls._convert(spec).params)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Sees to the limit itself."""
        self._batch = max_concurrent
        return True

    def _is_own(self, space: Any) -> bool:
        return isinstance(space, importlib.import_module("hebo.design_space.design_space").DesignSpace)

    def _make(self) -> Any:
        if self._is_seeded:
            importlib.import_module("numpy").random.seed(self.seed % 2**32)
            importlib.import_module("torch").manual_seed(self.seed)
        over = self._space if self._converted is None else _design(self._converted.params)
        made = importlib.import_module("hebo.optimizers.hebo").HEBO(
            space=over, **{"scramble_seed": self.seed, **self._options}
        )
        if self._rewards:
            self._optimizer = made
            for number, reward in enumerate(self._rewards):
                self._learn(self._give(self._point(number)), self._loss(reward), {})
            self._points = []
        return made

    def _next(self) -> Any:
        if len(self._asked) >= self._batch or (self._asked and not self._left):
            return None
        if not self._left:
            rows = self._optimizer.suggest(n_suggestions=self._batch)
            self._left = [rows.iloc[[at]] for at in range(len(rows))]
        asked = self._left.pop(0)
        return asked, self._unnamed({name: plain(asked[name].iloc[0]) for name in asked.columns})

    def _give(self, point: Any) -> Any:
        return importlib.import_module("pandas").DataFrame([self._named(point)])

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        if loss is not None:
            self._optimizer.observe(asked, importlib.import_module("numpy").array([[loss]]))


def _design(params: list[Any]) -> Any:
    found: list[dict[str, Any]] = []
    for param in params:
        if isinstance(param.domain, Categorical):
            places = [str(at) for at in range(len(param.branches))]
            found.append({"name": param.name, "type": "cat", "categories": places})
            continue
        kind, low, high, _ = numbers_of(param)
        if kind == "normal":
            refuse("HEBOSearch", param, "HEBO draws from ranges: give `tune.uniform`.")
        named = {"float": "num", "log_float": "pow", "int": "int", "log_int": "pow_int"}[kind]
        about: dict[str, Any] = {"name": param.name, "type": named, "lb": low, "ub": high}
        if named.endswith("int"):
            about |= {"lb": int(low), "ub": int(high)}
        if named.startswith("pow"):
            about["base"] = 10
        found.append(about)
    return importlib.import_module("hebo.design_space.design_space").DesignSpace().parse(found)
