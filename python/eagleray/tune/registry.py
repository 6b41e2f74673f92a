"""Trainables and environments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray._common.near import hint
from eagleray.tune.error import TuneError

if TYPE_CHECKING:
    from collections.abc import Callable

_trainables: dict[str, Any] = {}
_envs: dict[str, Callable[[dict[str, Any]], Any]] = {}


def register_trainable(name: str, trainable: Any, *, warn: bool = True) -> None:
    """Make a function or class known by a name that `tune.run` and `Tuner` take."""
    if not callable(trainable):
        raise TypeError(f"Second argument must be convertable to Trainable: {trainable!r}")
    _trainables[name] = trainable


def register_env(name: str, env_creator: Callable[[dict[str, Any]], Any]) -> None:
    """Make an environment known by a name: `env_creator(env_config)` makes it."""
    if not callable(env_creator):
        raise TypeError(f"Second argument must be callable: {env_creator!r}")
    _envs[name] = env_creator


def env_creator(name: str) -> Callable[[dict[str, Any]], Any] | None:
    """What makes the environment of this name, if one was registered."""
    return _envs.get(name)


def env_names() -> list[str]:
    """The environments that were registered."""
    return sorted(_envs)


def known_envs() -> dict[str, Callable[[dict[str, Any]], Any]]:
    """All of them, to be made known in another process by `register_env`."""
    return dict(_envs)


def get_trainable_cls(name: str) -> Any:
    """The trainable of this name."""
    if name in _trainables:
        return _trainables[name]
    from eagleray.rllib.algorithms.registry import ALGORITHMS, get_algorithm_class

    if name in ALGORITHMS:
        return get_algorithm_class(name)
    known = [*sorted(_trainables), *ALGORITHMS]
    raise TuneError(f"Unknown trainable: {name}.{hint(name, known)} Registered: {', '.join(known)}.")


def is_registered(name: str) -> bool:
    """Whether a trainable of this name is known."""
    from eagleray.rllib.algorithms.registry import ALGORITHMS

    return name in _trainables or name in ALGORITHMS


def with_known_envs(trainable: Any) -> Any:
    """An algorithm that knows, wherever it runs, the environments that were registered here. Other trainables are as they were."""
    carrying = getattr(trainable, "carrying", None)
    return carrying(known_envs()) if carrying is not None else trainable
