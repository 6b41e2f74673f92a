"""From a space with grids, domains and functions in it to configurations without: one after the other.

Grids are combined, the first key (by its path) varying fastest. What is random is drawn anew for every combination.
Functions see what is resolved already, so they are tried again until what they need is there.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from typing import TYPE_CHECKING, Any

from eagleray.tune.search._draw import as_draw
from eagleray.tune.search.sample import Categorical, Domain, Function, grid_search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eagleray.tune.search._draw import Draw

__all__ = [
    "RecursiveDependencyError",
    "as_domain",
    "assign_value",
    "count_variants",
    "flatten_resolved_vars",
    "format_vars",
    "generate_variants",
    "grid_search",
    "has_unresolved_values",
    "parse_spec_vars",
    "preset_variants",
]

Path = tuple[Any, ...]
Variant = tuple[dict[Path, Any], dict[str, Any]]


class RecursiveDependencyError(Exception):
    """Values that are computed from each other: none can be the first."""

    def __init__(self, msg: str) -> None:
        Exception.__init__(self, msg)


def generate_variants(
    unresolved_spec: Mapping[str, Any],
    constant_grid_search: bool = False,  # noqa: FBT001, FBT002
    random_state: Any = None,
) -> Iterator[Variant]:
    """The variants of one sample: pairs of what was chosen (by path) and the whole, with nothing left to choose.

    With `constant_grid_search` what is random is drawn once and stays the same over the whole grid.
    """
    draw = as_draw(random_state)
    for chosen, spec in _variants(_copied(unresolved_spec), draw, is_constant=constant_grid_search):
        yield _leaves(chosen, spec), spec


def preset_variants(
    spec: Mapping[str, Any],
    config: Mapping[str, Any],
    constant_grid_search: bool = False,  # noqa: FBT001, FBT002
    random_state: Any = None,
) -> Iterator[Variant]:
    """The variants of one sample of which some values are given; the rest is drawn."""
    merged = _copied(spec)
    for path, known, value in _overlaid(merged["config"], config):
        _warn_if_strange(_joined(path), known, value)
        assign_value(merged["config"], path, value)
    return generate_variants(merged, constant_grid_search, random_state)


def count_variants(spec: Mapping[str, Any], presets: Sequence[Mapping[str, Any]] = ()) -> int:
    """How many trials a spec (with its `num_samples`) and presets make; grids inside of a choice are not counted."""
    total = 0
    for preset in presets:
        merged = _copied(spec)
        for path, _, value in _overlaid(merged["config"], preset):
            assign_value(merged["config"], path, value)
        total += _grid_size(merged)
    rest = int(spec.get("num_samples", 1)) - len(presets)
    return total + max(0, rest) * _grid_size(spec)


def parse_spec_vars(
    spec: Mapping[str, Any],
) -> tuple[list[tuple[Path, Any]], list[tuple[Path, Domain]], list[tuple[Path, Categorical]]]:
    """What is given, what is drawn or computed, and what is a grid: each as pairs of path and value."""
    given: list[tuple[Path, Any]] = []
    domains: list[tuple[Path, Domain]] = []
    grids: list[tuple[Path, Categorical]] = []
    for path, value in _walk(spec):
        if not isinstance(value, Domain):
            given.append((path, value))
        elif isinstance(value, Categorical) and value.is_grid():
            grids.append((path, value))
        else:
            domains.append((path, value))
    grids.sort(key=lambda pair: [str(part) for part in pair[0]])
    return given, domains, grids


def has_unresolved_values(spec: Mapping[str, Any]) -> bool:
    """Whether anything is left to choose."""
    return any(isinstance(value, Domain) for _, value in _walk(spec))


def format_vars(resolved_vars: Mapping[Path, Any]) -> str:
    """What was chosen as a tag that any file system takes: `bar=True,foo=1`."""
    shown = {path: value for path, value in resolved_vars.items() if path not in _UNTAGGED}
    ordered = sorted(shown.items(), key=lambda pair: [str(part) for part in pair[0]])
    return ",".join(f"{_clean(path[-1])}={_clean(value)}" for path, value in ordered)


def flatten_resolved_vars(resolved_vars: Mapping[Path, Any]) -> dict[str, Any]:
    """What was chosen by `a/b/c`, without the word `config` in front."""
    return {_joined(path[1:] if path[0] == "config" else path): value for path, value in resolved_vars.items()}


def assign_value(spec: Any, path: Path, value: Any) -> None:
    """Sets what lies at a path; tuples on the way are made anew."""
    parent = _value_at(spec, path[:-1])
    if isinstance(parent, tuple):
        if len(path) == 1:
            raise ValueError("Cannot assign value to a tuple.")
        at = path[-1]
        assign_value(spec, path[:-1], (*parent[:at], value, *parent[at + 1 :]))
    else:
        parent[path[-1]] = value


_UNTAGGED = {("run",), ("env",), ("resources_per_trial",)}


def _overlaid(space: Any, given: Mapping[str, Any], above: Path = ()) -> list[tuple[Path, Any, Any]]:
    """What given values replace: paths, what the space has there, and the values."""
    found: list[tuple[Path, Any, Any]] = []
    for key, value in given.items():
        path = (*above, key)
        if key not in space:
            text = (
                f"Pre-set config key `{_joined(path)}` does not correspond to a valid key in the search space "
                "definition. Please add this path to the `param_space` variable passed to `tune.Tuner()`."
            )
            raise ValueError(text)
        known = space[key]
        if as_domain(key, known) is None and isinstance(known, dict) and isinstance(value, dict):
            found += _overlaid(known, value, path)
        else:
            found.append((path, known, value))
    return found


def _variants(spec: dict[str, Any], draw: Draw, *, is_constant: bool) -> Iterator[Variant]:
    _, domains, grids = parse_spec_vars(spec)
    if not domains and not grids:
        yield {}, spec
        return
    constant: dict[Path, Any] = {}
    if is_constant:
        # What needs a value of the grid has to wait until there is one.
        constant, _ = _resolve(spec, domains, draw)
    for combination in _combinations(grids):
        attempt = _copied(spec)
        for path, value in combination.items():
            assign_value(attempt, path, _copied(value))
        drawn, stuck = _resolve(attempt, [pair for pair in domains if pair[0] not in constant], draw)
        if stuck is not None:
            raise stuck
        for deeper, whole in _variants(attempt, draw, is_constant=is_constant):
            yield {**constant, **drawn, **combination, **deeper}, whole


def _combinations(grids: list[tuple[Path, Categorical]]) -> Iterator[dict[Path, Any]]:
    paths = [path for path, _ in grids]
    # `product` varies its last argument fastest.
    for values in itertools.product(*(grid.categories for _, grid in reversed(grids))):
        yield dict(zip(paths, reversed(values), strict=True))


def _resolve(
    spec: dict[str, Any], domains: list[tuple[Path, Domain]], draw: Draw
) -> tuple[dict[Path, Any], RecursiveDependencyError | None]:
    """Draws and computes until nothing more can be; returns the values and, if some are left, why."""
    resolved: dict[Path, Any] = {}
    waiting = domains
    while waiting:
        still: list[tuple[Path, Domain]] = []
        stuck: RecursiveDependencyError | None = None
        for path, domain in waiting:
            try:
                value = domain.sample(_guarded(spec), random_state=draw)
            except RecursiveDependencyError as error:
                stuck = error
                still.append((path, domain))
            except Exception as error:
                raise ValueError(f"Failed to evaluate expression: {path}: {domain}") from error
            else:
                resolved[path] = _copied(value)
                assign_value(spec, path, resolved[path])
        if len(still) == len(waiting):
            return resolved, stuck
        waiting = still
    return resolved, None


def _leaves(chosen: dict[Path, Any], spec: dict[str, Any]) -> dict[Path, Any]:
    """What was chosen, in its final form: of a chosen dict, the values in it."""
    leaves: dict[Path, Any] = {}
    for path in chosen:
        value = _value_at(spec, path)
        if isinstance(value, dict) and value:
            leaves.update({(*path, *below): leaf for below, leaf in _walk(value)})
        else:
            leaves[path] = value
    return leaves


def _walk(tree: Any) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path. Grids and expressions come as domains."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        known = as_domain(key, value)
        if known is not None:
            yield (key,), known
        elif isinstance(value, dict | list | tuple):
            for path, leaf in _walk(value):
                yield (key, *path), leaf
        else:
            yield (key,), value


def as_domain(key: Any, value: Any) -> Domain | None:
    """The domain that a value is, be it written as a grid or as an expression; None if it is a plain value."""
    if isinstance(value, Domain):
        return value
    if isinstance(value, dict) and len(value) == 1:
        if "grid_search" in value:
            return _as_grid(key, value["grid_search"])
        if "eval" in value:
            return _Expression(value["eval"])
    return None


def _as_grid(key: Any, values: Any) -> Categorical:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"Grid search of `{key}` expected a list of values, got: {values!r}")
    values = list(values)
    if not values:
        raise ValueError(f"Grid search of `{key}` has no values")
    return Categorical(values).grid()


class _Expression(Function):
    """`{"eval": "spec.config.x * 2"}`, as files of experiments have it."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(self._evaluate)

    def _evaluate(self, config: Any) -> Any:
        names: dict[str, Any] = {"random": random, "math": math, "spec": config, "config": config}
        if re.search(r"\b(?:np|numpy)\b", self.text):
            import numpy as np

            names |= {"np": np, "numpy": np}
        return eval(self.text, names)

    def __repr__(self) -> str:
        return f"eval({self.text!r})"


class _Guard(dict[Any, Any]):
    """A configuration as functions see it: with attributes, and an error for what is not resolved yet."""

    _outer: Mapping[str, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._checked(key, dict.__getitem__(self, key))

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name == "config" and self._outer:
            return self
        if name in self._outer:
            return self._checked(name, self._outer[name])
        raise AttributeError(name)

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    @staticmethod
    def _checked(key: Any, value: Any) -> Any:
        if as_domain(key, value) is not None:
            raise RecursiveDependencyError(f"`{key}` recursively depends on {value}")
        return _Guard(value) if isinstance(value, dict) else value


def _guarded(spec: dict[str, Any]) -> _Guard:
    """Both ways to look: `spec.config.x`, as old programs do, and `config["x"]`."""
    config = spec.get("config")
    guard = _Guard(config if isinstance(config, dict) else spec)
    guard.__dict__["_outer"] = spec
    return guard


def _copied(tree: Any) -> Any:
    """Containers anew, leaves as they are."""
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in dict.items(tree)}
    if type(tree) is list:
        return [_copied(value) for value in tree]
    if type(tree) is tuple:
        return tuple(_copied(value) for value in tree)
    return tree


def _value_at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _grid_size(spec: Mapping[str, Any]) -> int:
    return math.prod(len(grid) for _, grid in parse_spec_vars(spec)[2])


def _joined(path: Path) -> str:
    return "/".join(str(part) for part in path)


def _clean(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", str(value)).strip("_")


def _warn_if_strange(name: str, known: Any, value: Any) -> None:
    import logging

    domain = as_domain(name, known)
    logger = logging.getLogger(__name__)
    if domain is not None:
        if not domain.is_valid(value):
            text = "Pre-set value `%s` is not within valid values of parameter `%s`: %s"
            logger.warning(text, value, name, domain.domain_str)
    elif not isinstance(known, dict) and known != value:
        logger.warning("Pre-set value `%s` is not equal to the value of parameter `%s`: %s", value, name, known)
