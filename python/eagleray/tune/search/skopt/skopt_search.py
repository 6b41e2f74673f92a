"""scikit-optimize as a searcher, for those who have it installed."""

from __future__ import annotations

from typing import Any

from eagleray.tune.search._package import PackageSearcher, numbers_of, plain, refuse
from eagleray.tune.search.sample import Categorical


class SkOptSearch(PackageSearcher):
    """Suggests what an `Optimizer` of scikit-optimize suggests.

    Args:
        optimizer: one of your own; it is made if there is none. With one, `space` lists the names of its dimensions.
        space: a nested dict of domains, or scikit-optimize's dimensions by name; without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with; also as lists of values, in the order of the dimensions.
        evaluated_rewards: what became of those points; they are not tried again.
        convert_to_python: has no effect: values are Python's own.
    """

    _package = "skopt"
    _pip = "scikit-optimize"

    def __init__(
        self,
        optimizer: Any = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Any] | None = None,
        evaluated_rewards: list[float] | None = None,
        convert_to_python: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        self._given_optimizer = optimizer
        self._rewards = list(evaluated_rewards or [])
        points = list(points_to_evaluate or [])
        if self._rewards and len(self._rewards) != len(points):
            raise ValueError(f"Dim of evaluated_rewards {self._rewards} and points_to_evaluate {points} do not match.")
        if optimizer is not None:
            if not isinstance(space, list):
                raise ValueError("with an optimizer of your own, space is the list of its dimensions' names")
            space = dict(zip(space, optimizer.space.dimensions, strict=True))
        self._known = points if self._rewards else []
        super().__init__(space, metric, mode, [] if self._rewards else points)
        if isinstance(self._space, dict):
            self._points = [self._by_name(point) for point in self._points]

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any], join: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """A nested dict of domains as scikit-optimize has it: dimensions by name."""
        return _dimensions(cls._imported().space, cls._convert(spec).params)

    def _by_name(self, point: Any) -> dict[str, Any]:
        return dict(point) if isinstance(point, dict) else dict(zip(self._space, point, strict=True))

    def _is_own(self, space: Any) -> bool:
        if not isinstance(space, dict) or not space:
            return False
        return all(
            isinstance(each, self._library.space.Dimension)
            or (isinstance(each, tuple | list) and all(isinstance(part, int | float | str) for part in each))
            for each in space.values()
        )

    def _make(self) -> Any:
        if self._given_optimizer is not None:
            self._names = list(self._space)
            made = self._given_optimizer
        else:
            dimensions = (
                self._space if self._converted is None else _dimensions(self._library.space, self._converted.params)
            )
            self._names = list(dimensions)
            made = self._library.Optimizer(list(dimensions.values()), random_state=self.seed % 2**32)
        for point, reward in zip(self._known, self._rewards, strict=True):
            given = self._by_name(point)
            known = given if self._converted is None else self._converted.parse(given)
            if known is None:
                raise ValueError(f"{point} does not lie in the search space")
            made.tell(self._give(known), -reward if self._mode == "max" else reward)
        return made

    def _next(self) -> Any:
        asked = [plain(value) for value in self._optimizer.ask()]
        if self._converted is None:
            return asked, dict(zip(self._names, asked, strict=True))
        return asked, list(asked)

    def _give(self, point: Any) -> Any:
        if self._converted is None:
            return [point[name] for name in self._names]
        return self._whole(point)

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        # It has no word for a failure: what is not told is as if it had not been asked for.
        if loss is not None:
            self._optimizer.tell(asked, loss)


def _dimensions(space: Any, params: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for param in params:
        if isinstance(param.domain, Categorical):
            found[param.name] = space.Categorical(list(range(len(param.branches))))
            continue
        kind, low, high, _ = numbers_of(param)
        if kind == "normal":
            refuse("SkOptSearch", param, "scikit-optimize draws from ranges: give `tune.uniform`.")
        made = space.Integer if kind.endswith("int") else space.Real
        prior = "log-uniform" if kind.startswith("log_") else "uniform"
        found[param.name] = made(low, high, prior=prior)
    return found
