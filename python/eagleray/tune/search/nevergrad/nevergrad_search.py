"""Nevergrad's optimisers as a searcher, for those who have it installed."""

from __future__ import annotations

from typing import Any

from eagleray.tune.search._package import PackageSearcher, numbers_of, plain
from eagleray.tune.search.sample import Categorical


class NevergradSearch(PackageSearcher):
    """Suggests what an optimiser of Nevergrad suggests.

    Args:
        optimizer: a class of `nevergrad.optimizers`, its name, or an instance; without one, `NGOpt` if
            there is a `budget`, else `OnePlusOne`.
        optimizer_kwargs: what the class is made with, such as `budget`.
        space: a nested dict of domains, a parametrization of Nevergrad's, or, beside an instance over an array, the names of its numbers;
            without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        seed: decides everything that is drawn.
    """

    _package = "nevergrad"
    _pip = "nevergrad"

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._kind = optimizer
        self._options = dict(optimizer_kwargs or {})
        self._names: list[str] | None = None
        super().__init__(None, metric, mode, points_to_evaluate, seed)
        if isinstance(space, list) and all(isinstance(name, str) for name in space):
            self._names, space = space, None
        if _is_instance(optimizer):
            if optimizer_kwargs:
                raise ValueError("optimizer_kwargs are of a class; an instance of an optimizer was given")
            if self._names is None and not isinstance(optimizer.parametrization, self._library.p.Dict):
                raise ValueError("`space` must name the numbers of an optimizer over an array")
            space = optimizer.parametrization
        if space is not None and not (isinstance(space, dict) and not space):
            self._set_space(space)

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any]) -> Any:
        """A nested dict of domains as Nevergrad has it."""
        return _parametrization(cls._imported(), cls._convert(spec).params)

    def _is_own(self, space: Any) -> bool:
        return isinstance(space, self._library.p.Parameter)

    def _make(self) -> Any:
        if _is_instance(self._kind):
            return self._kind
        # NGOpt chooses by the budget.
        kind = self._kind or ("NGOpt" if self._options.get("budget") else "OnePlusOne")
        if isinstance(kind, str):
            kind = self._library.optimizers.registry[kind]
        over = self._space if self._converted is None else _parametrization(self._library, self._converted.params)
        over.random_state.seed(self.seed % 2**32)
        return kind(parametrization=over, **{"budget": None, "num_workers": 1, **self._options})

    def _next(self) -> Any:
        asked = self._optimizer.ask()
        if self._converted is not None:
            return asked, [plain(asked.value[param.name]) for param in self._converted.params]
        if self._names is not None:
            flat = asked.args[0] if isinstance(asked.value, tuple) else asked.value
            return asked, {name: plain(value) for name, value in zip(self._names, flat, strict=True)}
        return asked, dict(asked.value)

    def _give(self, point: Any) -> Any:
        over = self._optimizer.parametrization
        if self._converted is not None:
            # Nevergrad has a value for every parameter, also for those that do not count.
            value: Any = dict(over.value)
            for param, each in zip(self._converted.params, point, strict=True):
                if each is not None:
                    value[param.name] = each
        elif self._names is not None:
            import numpy as np

            row = np.array([point[name] for name in self._names])
            value = ((row,), {}) if isinstance(over.value, tuple) else row
        else:
            value = point
        return over.spawn_child(new_value=value)

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        if loss is not None:
            self._optimizer.tell(asked, loss)


def _is_instance(optimizer: Any) -> bool:
    return optimizer is not None and not isinstance(optimizer, type) and hasattr(optimizer, "ask")


def _parametrization(library: Any, params: list[Any]) -> Any:
    p = library.p
    found = {}
    for param in params:
        if isinstance(param.domain, Categorical):
            found[param.name] = p.Choice(list(range(len(param.branches))))
            continue
        kind, low, high, _ = numbers_of(param)
        if kind == "normal":
            made = p.Scalar(init=low).set_mutation(sigma=high)
        elif low == high:
            made = p.Choice([low])
        elif kind.startswith("log_"):
            made = p.Log(lower=low, upper=high)
        else:
            made = p.Scalar(lower=low, upper=high)
        found[param.name] = made.set_integer_casting() if kind.endswith("int") and low != high else made
    return p.Dict(**found)
