"""What searchers of users' own packages have in common: the package asks for points, and is told what became of them.

A subclass says how its package is asked and told. Points are lists of one value for each parameter of a converted space (of a choice, its
index; None where a condition is not met), or whole configurations where the space is the package's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from typing import Any, ClassVar

from eagleray.tune.search._draw import fresh_seed
from eagleray.tune.search._space import ConvertedSpace, native_kind
from eagleray.tune.search.native import metric_of
from eagleray.tune.search.sample import Categorical
from eagleray.tune.search.searcher import Searcher
from eagleray.tune.search.variant_generator import preset_variants


class PackageSearcher(Searcher):
    """Suggests what a package suggests.

    Args:
        space: a nested dict of domains, or a space of the package's own; without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with. What one does not say is drawn.
        seed: decides everything that is drawn, as far as the package lets it.
    """

    #: What is imported, and what pip calls it.
    _package: ClassVar[str] = ""
    _pip: ClassVar[str] = ""

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._library = self._imported()
        super().__init__(metric=metric, mode=mode)
        if points_to_evaluate is not None and not isinstance(points_to_evaluate, list | tuple):
            raise TypeError(f"points_to_evaluate expected to be a list, got {type(points_to_evaluate)}.")
        self.seed = fresh_seed() if seed is None else int(seed)
        self._points = list(points_to_evaluate or [])
        self._space: Any = None
        #: None where the space is the package's own.
        self._converted: ConvertedSpace | None = None
        self._optimizer: Any = None
        self._count = 0
        self._trace: Any = None
        #: What the package knows a trial by.
        self._asked: dict[str, Any] = {}
        if space is not None and not (isinstance(space, dict) and not space):
            self._set_space(space)

    # What a subclass says.

    def _is_own(self, space: Any) -> bool:
        """Whether a space is the package's own."""
        return False

    def _make(self) -> Any:
        """The package's optimiser, once the space is known, and what is optimised."""
        raise NotImplementedError

    def _next(self) -> Any:
        """What the package knows its next point by, and the point; or None for later, or `Searcher.FINISHED`."""
        raise NotImplementedError

    def _give(self, point: Any) -> Any:
        """What the package knows a point by that it did not ask for."""
        raise NotImplementedError

    def _drop(self, asked: Any) -> None:
        """A point that it asked for is not tried."""

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        """Tells what became of a point: the less the better; None if it failed."""
        raise NotImplementedError

    # What Tune calls.

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Hears of the experiment. False if it has a space already."""
        self._hear(metric, mode)
        if self._space is not None:
            return False
        self._set_space(config)
        return True

    def suggest(self, trial_id: str) -> Any:
        """The next configuration; None if the package has none now."""
        self._begin()
        if self._count < len(self._points):
            point = self._point(self._count)
            asked = self._give(point)
        else:
            found = self._next()
            if found is None or found == Searcher.FINISHED:
                return found
            asked, point = found
        return self._given(trial_id, asked, point)

    def trace(self) -> Any:
        """The latest point."""
        return self._trace

    def retrace(self, trial_id: str, trace: Any) -> Any:
        """Lets the package move on as it did. If it asks for another point now, it is told which one was tried instead."""
        self._begin()
        if self._count < len(self._points):
            return self.suggest(trial_id)
        (point,) = trace
        found = self._next()
        if found is None or found == Searcher.FINISHED:
            asked = self._give(point)
        else:
            asked, now = found
            if now != point:
                self._drop(asked)
                asked = self._give(point)
        return self._given(trial_id, asked, point)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Tells the package what became of a trial. Without a number for the metric it counts as failed."""
        if trial_id not in self._asked:
            return
        value = None if error else metric_of(result, self._metric)
        self._learn(self._asked.pop(trial_id), self._loss(value), result or {})

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,  # noqa: FBT001, FBT002
        pruned: bool = False,  # noqa: FBT001, FBT002
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Tells the package of a configuration that was tried elsewhere."""
        self._begin()
        point = parameters if self._converted is None else self._converted.parse(parameters)
        if point is None:
            raise ValueError(f"{parameters} does not lie in the search space")
        self._learn(self._give(point), None if error or pruned else self._loss(value), {self._metric: value})

    def get_state(self) -> dict[str, Any]:
        """The package's optimiser and what is known of its trials."""
        return {key: value for key, value in vars(self).items() if key != "_library"}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up a state."""
        self._library = self._imported()
        vars(self).update(state)

    __getstate__ = get_state
    __setstate__ = set_state

    # Within.

    @classmethod
    def _imported(cls) -> Any:
        try:
            return importlib.import_module(cls._package)
        except ImportError as error:
            text = f"{cls.__name__} needs {cls._pip}, which is not installed: run `pip install {cls._pip}`."
            # One that is there, and needs something that is not, says itself what that is.
            if importlib.util.find_spec(cls._package.partition(".")[0]) is not None:
                text = f"{cls.__name__} needs {cls._pip}, which cannot be imported: {error}"
            raise ImportError(text) from error

    def _set_space(self, space: Any) -> None:
        self._space = space
        if not self._is_own(space):
            if not isinstance(space, dict):
                raise TypeError(f"{type(self).__name__}: a space is a dict or one of {self._pip}'s own, not {space!r}")
            self._converted = self._convert(space)

    @classmethod
    def _convert(cls, space: dict[str, Any]) -> ConvertedSpace:
        return ConvertedSpace(space, who=cls.__name__)

    def _begin(self) -> None:
        self._refuse_without(space=self._space is not None, metric=bool(self._metric and self._mode))
        if self._optimizer is None:
            self._optimizer = self._make()

    def _given(self, trial_id: str, asked: Any, point: Any) -> dict[str, Any]:
        self._asked[trial_id] = asked
        self._count += 1
        self._trace = (point,)
        if self._converted is None:
            from eagleray.tune.utils.util import unflatten_dict

            return unflatten_dict(point)
        return self._converted.build(self._active(point))

    def _whole(self, point: list[Any]) -> list[Any]:
        """The values of a point, for a package that wants one for each parameter: where a condition is not met, the least or the first choice."""
        assert self._converted is not None
        known = zip(self._converted.params, point, strict=True)
        return [_least(param) if value is None else value for param, value in known]

    def _named(self, point: Any) -> dict[str, Any]:
        """A point for a package that knows parameters by name. Choices are texts: of numbers packages believe that they have an order."""
        if self._converted is None:
            return dict(point)
        known = zip(self._converted.params, self._whole(point), strict=True)
        return {param.name: str(value) if isinstance(param.domain, Categorical) else value for param, value in known}

    def _unnamed(self, found: dict[str, Any]) -> Any:
        """The point that such a package means."""
        if self._converted is None:
            return dict(found)
        return [
            int(found[param.name]) if isinstance(param.domain, Categorical) else clipped(param, found[param.name])
            for param in self._converted.params
        ]

    def _active(self, values: list[Any]) -> list[Any]:
        """The values whose conditions are met; None for the others."""
        assert self._converted is not None
        found: list[Any] = []
        for param, value in zip(self._converted.params, values, strict=True):
            found.append(value if all(found[parent] in chosen for parent, chosen in param.when) else None)
        return found

    def _point(self, number: int) -> Any:
        """One of the points to begin with."""
        if self._converted is None:
            return dict(self._points[number])
        variants = preset_variants({"config": self._space}, self._points[number], random_state=self.seed + number)
        _, spec = next(iter(variants))
        values = self._converted.parse(spec["config"])
        if values is None:
            raise ValueError(f"points_to_evaluate[{number}] does not lie in the search space: {self._points[number]}")
        return values

    def _loss(self, value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        return -float(value) if self._mode == "max" else float(value)


def numbers_of(param: Any) -> tuple[str, float, float, float]:
    """A parameter's kind (`int`, `log_int`, `float`, `log_float`, `normal`), its bounds (of `normal` mean and deviation), its step or 0."""
    kind, (low, high, step) = native_kind(param)
    return kind, low, high, step


def plain(value: Any) -> Any:
    """A package's number as Python's."""
    return value.item() if hasattr(value, "item") else value


def _least(param: Any) -> Any:
    return 0 if isinstance(param.domain, Categorical) else numbers_of(param)[1]


def clipped(param: Any, value: float) -> Any:
    """A number as the parameter has it: packages round steps beyond its ends."""
    kind, low, high, _ = numbers_of(param)
    value = value if kind == "normal" else min(max(value, low), high)
    return round(value) if kind.endswith("int") else value


def refuse(who: str, param: Any, why: str) -> None:
    """Says that a package has no such parameters."""
    raise ValueError(
        f"{who} does not support parameters of type `{type(param.domain).__name__}`: `{param.name}`. {why}"
    )
