"""A nested space as searchers want it: a list of parameters, some of which count only under a condition; and back.

A choice among dicts or lists with domains inside is a choice with conditions: what lies inside counts if it is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eagleray.tune.search.sample import Categorical, Domain, Float, Function, Integer, LogUniform, Normal, Quantized
from eagleray.tune.search.variant_generator import Path, as_domain, has_unresolved_values

#: Name, kind, numbers of that kind, conditions (index of a choice, which of its values): as the native searchers take it.
NativeParam = tuple[str, str, list[float], list[tuple[int, list[int]]]]
Conditions = list[tuple[int, list[int]]]


@dataclass
class Param:
    """One parameter: where it lies, what it may be, when it counts."""

    path: Path
    domain: Domain
    when: Conditions
    #: Of a choice: what each of its values turns into.
    branches: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its path as `a/b/c`, with the branch it is on."""
        return "/".join(str(part) for part in self.path)


class ConvertedSpace:
    """Parameters in order, and the way from their values to a configuration and back."""

    def __init__(self, space: dict[str, Any], *, who: str) -> None:
        self.params: list[Param] = []
        #: Whether functions are left, which see the configuration when everything else is known.
        self.has_functions = False
        self._who = who
        self._tree = self._compile(space, (), [])

    def native(self) -> list[NativeParam]:
        """All parameters, for a native searcher."""
        return [(param.name, *native_kind(param), param.when) for param in self.params]

    def build(self, values: list[Any]) -> dict[str, Any]:
        """The configuration of one value for each parameter; None where one does not count."""
        config: dict[str, Any] = self._build(self._tree, values)
        return config

    def parse(self, config: Any) -> list[Any] | None:
        """The values that make up a configuration; None if none do."""
        values: list[Any] = [None] * len(self.params)
        return values if self._parse(self._tree, config, values) else None

    def _compile(self, value: Any, path: Path, when: Conditions) -> Any:
        domain = as_domain(path[-1], value) if path else None
        if domain is None:
            if isinstance(value, dict):
                return {key: self._compile(inner, (*path, key), when) for key, inner in value.items()}
            if type(value) in (list, tuple):
                return type(value)(self._compile(inner, (*path, at), when) for at, inner in enumerate(value))
            return _Constant(value)
        if domain.is_grid():
            text = (
                f"Grid search parameters cannot be automatically converted to a {self._who} search space: `"
                f"{'/'.join(str(part) for part in path)}`. Use `tune.choice`, or no search algorithm."
            )
            raise ValueError(text)
        if isinstance(domain, Function):
            self.has_functions = True
            return _Constant(value)
        param = Param(path, domain, when)
        index = len(self.params)
        self.params.append(param)
        if isinstance(domain, Categorical):
            for at, branch in enumerate(domain.categories):
                is_open = isinstance(branch, dict | list | tuple | Domain) and has_unresolved_values({"": branch})
                inner = self._compile(branch, (*path, at), [*when, (index, [at])]) if is_open else _Constant(branch)
                param.branches.append(inner)
        return _Slot(index)

    def _build(self, node: Any, values: list[Any]) -> Any:
        if isinstance(node, _Constant):
            return node.value
        if isinstance(node, dict):
            return {key: self._build(inner, values) for key, inner in node.items()}
        if isinstance(node, list | tuple):
            return type(node)(self._build(inner, values) for inner in node)
        param, value = self.params[node.index], values[node.index]
        if param.branches:
            return self._build(param.branches[value], values)
        sampler = param.domain.sampler
        if isinstance(sampler, Quantized) and isinstance(param.domain, Float):
            # The native step adds up small errors that a multiple of q does not have.
            value = sampler.nearest(param.domain, value)
        return param.domain.cast(value)

    def _parse(self, node: Any, value: Any, values: list[Any]) -> bool:
        if isinstance(node, _Constant):
            return isinstance(node.value, Domain) or _is_same(node.value, value)
        if isinstance(node, dict):
            return (
                isinstance(value, dict)
                and node.keys() == value.keys()
                and all(self._parse(inner, value[key], values) for key, inner in node.items())
            )
        if isinstance(node, list | tuple):
            return (
                isinstance(value, list | tuple)
                and len(value) == len(node)
                and all(self._parse(inner, each, values) for inner, each in zip(node, value, strict=True))
            )
        param = self.params[node.index]
        if param.branches:
            for at, branch in enumerate(param.branches):
                attempt = list(values)
                if self._parse(branch, value, attempt):
                    values[:] = attempt
                    values[node.index] = at
                    return True
            return False
        if isinstance(value, bool) or not isinstance(value, int | float):
            try:
                value = param.domain.cast(value)
            except (TypeError, ValueError):
                return False
        values[node.index] = value
        return True


@dataclass
class _Constant:
    value: Any


@dataclass
class _Slot:
    index: int


def _is_same(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # what arrays and strange classes say to a comparison
        return False


def native_kind(param: Param) -> tuple[str, list[float]]:
    """What a parameter is for the native searchers, and its numbers: bounds, both included, and the step, or 0."""
    domain = param.domain
    if isinstance(domain, Categorical):
        return "choice", [len(domain.categories)]
    sampler = domain.get_sampler()
    step = 0.0
    if isinstance(sampler, Quantized):
        step, sampler = float(sampler.q), sampler.sampler
    log = "log_" if isinstance(sampler, LogUniform) else ""
    if isinstance(domain, Integer):
        if isinstance(domain.sampler, Quantized):
            low, high = domain.sampler.indices(domain)
            return f"{log}int", [low * step, (high - 1) * step, step]
        return f"{log}int", [domain.lower, domain.upper - 1, 1]
    assert isinstance(domain, Float)
    if isinstance(sampler, Normal):
        return "normal", [sampler.mean, sampler.sd, step]
    return f"{log}float", [domain.lower, domain.upper, step]
