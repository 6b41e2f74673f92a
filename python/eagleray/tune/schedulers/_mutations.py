"""How a configuration changes: which of its parameters may, and what a drawn change makes of them."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Where a parameter is in a configuration.
Path = tuple[str, ...]
#: What may be drawn for it: a list or tuple, a domain of `tune`, a function without arguments.
Spec = Any


def is_domain(spec: object) -> bool:
    """Whether it is one of `tune.uniform` and the like. They are told by what they can do, so that users' own count too."""
    return callable(getattr(spec, "sample", None)) and not isinstance(spec, type)


def is_sample_from(spec: object) -> bool:
    """Whether it is `tune.sample_from(...)`, which looks at a whole configuration."""
    return is_domain(spec) and callable(getattr(spec, "func", None))


def check(mutations: dict[str, Any]) -> None:
    """Refuses what cannot be drawn from."""
    for value in mutations.values():
        if not (isinstance(value, dict | list | tuple) or is_domain(value) or callable(value)):
            raise TypeError(
                "`hyperparam_mutation` values must be either a List, Tuple, Dict, a tune search space object, or a callable."
            )
        if is_sample_from(value):
            raise ValueError(
                "arbitrary tune.sample_from objects are not supported for `hyperparam_mutation` values."
                "You must use other built in primitives liketune.uniform, tune.loguniform, etc."
            )
        if isinstance(value, dict):
            check(value)
        elif isinstance(value, list | tuple) and not value:
            raise ValueError("`hyperparam_mutation` lists must not be empty.")


def leaves(mutations: dict[str, Any], above: Path = ()) -> Iterator[tuple[Path, Spec]]:
    """All parameters that may change, also nested ones."""
    for key, spec in mutations.items():
        if isinstance(spec, dict):
            yield from leaves(spec, (*above, key))
        else:
            yield (*above, key), spec


def get(config: dict[str, Any], path: Path) -> Any:
    """The value of a parameter."""
    value: Any = config
    for key in path:
        value = value[key]
    return value


def _has(config: dict[str, Any], path: Path) -> bool:
    value: Any = config
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def put(config: dict[str, Any], path: Path, value: Any) -> None:
    """Sets a parameter, and makes the dicts on the way to it."""
    for key in path[:-1]:
        config = config.setdefault(key, {})
    config[path[-1]] = value


def draw(spec: Spec, seed: int) -> Any:
    """A fresh value. Lists and domains draw from the seed; a function draws from what it likes."""
    if isinstance(spec, list | tuple):
        return random.Random(seed).choice(spec)
    if is_domain(spec):
        # numpy takes seeds of 32 bits.
        return spec.sample(random_state=seed & 0xFFFF_FFFF)
    return spec()


def fill(config: dict[str, Any], mutations: dict[str, Any], seed: int) -> dict[str, Any]:
    """Draws what the configuration lacks. Returns that, with nested ones as `a/b`."""
    drawn = {}
    source = random.Random(seed)
    for path, spec in leaves(mutations):
        own = source.getrandbits(32)
        if _has(config, path):
            continue
        value = draw(spec, own)
        put(config, path, value)
        drawn["/".join(path)] = value
    return drawn


def genes(config: dict[str, Any], listed: Sequence[tuple[Path, Spec]]) -> list[tuple[int, int | None] | None]:
    """The parameters as the native part sees them."""
    return [_gene(get(config, path), spec) for path, spec in listed]


def _gene(value: Any, spec: Spec) -> tuple[int, int | None] | None:
    if not isinstance(spec, list | tuple):
        return None if _is_number(value) else (0, None)
    return len(spec), next((place for place, other in enumerate(spec) if _same(value, other)), None)


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # arrays
        return a is b


def apply(
    config: dict[str, Any], listed: Sequence[tuple[Path, Spec]], changes: Sequence[tuple[str, float]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The changed configuration, and for each parameter what was done to it."""
    changed = copy.deepcopy(config)
    operations: dict[str, Any] = {}
    for (path, spec), (what, how) in zip(listed, changes, strict=True):
        old = get(config, path)
        value, told = _changed(old, spec, what, how)
        put(changed, path, value)
        put(operations, path, told)
    return changed, operations


def _changed(old: Any, spec: Spec, what: str, how: float) -> tuple[Any, str]:
    if what in ("left", "right"):
        value = spec[int(how)]
        return value, f"shift {what}{' (noop)' if _same(value, old) else ''}"
    if what == "pick":
        return spec[int(how)], "resample"
    value, told = (draw(spec, int(how)), "resample") if what == "resample" else (old * how, f"* {how}")
    # What began as a whole number stays one, as a batch size does.
    if isinstance(old, int) and not isinstance(old, bool) and isinstance(value, float):
        value = int(value)
    return value, told


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | str | bytes | list | tuple | dict):
        return False
    return isinstance(value, int | float) or hasattr(value, "__mul__")


def only(config: dict[str, Any], mutations: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that may change."""
    kept: dict[str, Any] = {}
    for key, spec in mutations.items():
        if key in config:
            inner = isinstance(spec, dict) and isinstance(config[key], dict)
            kept[key] = only(config[key], spec) if inner else config[key]
    return kept


def summary(old: dict[str, Any], new: dict[str, Any], operations: dict[str, Any], indent: str = "") -> str:
    """What changed, for people: a line for each parameter."""
    text = ""
    for key, value in old.items():
        done = operations.get(key)
        if isinstance(value, dict):
            inner = summary(value, new[key], done if isinstance(done, dict) else {}, indent + " " * 4)
            text += f"{indent}{key} : \n{inner}"
        else:
            arrow = f"--- ({done}) -->" if done else "----->"
            text += f"{indent}{key} : {value} {arrow} {new.get(key)}\n"
    return text


def tag(original: str, config: dict[str, Any], listed: Sequence[tuple[Path, Spec]]) -> str:
    """A trial's tag after its parameters have changed."""
    show: Callable[[Any], str] = lambda value: f"{value:.4f}" if isinstance(value, float) else str(value)  # noqa: E731
    changed = ",".join(f"{path[-1]}={show(get(config, path))}" for path, _ in listed)
    return f"{original}@perturbed[{changed}]"
