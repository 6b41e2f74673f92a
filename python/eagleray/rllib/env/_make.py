"""Makes an environment of what programs name it by: a class, a function, a registered name, an id of gymnasium."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from eagleray._common.near import nearest
from eagleray.rllib.utils.error import EnvError, MissingPackageError
from eagleray.tune import registry

if TYPE_CHECKING:
    from eagleray.rllib.env.env_context import EnvContext


def make(spec: Any, context: EnvContext) -> Any:
    """One environment."""
    if spec is None:
        raise ValueError('no environment was said: set `env`, as in config.environment("CartPole-v1")')
    if isinstance(spec, str):
        creator = registry.env_creator(spec)
        made = creator(context) if creator is not None else _by_id(spec, context)
    elif callable(spec):
        made = spec(context) if _takes_config(spec) else spec()
    else:
        raise TypeError(f"`env` must be a class, a function, a registered name or an id of gymnasium, not {spec!r}")
    if made is None:
        raise EnvError(f"the function that makes the environment {spec!r} returned None")
    return made


def _takes_config(spec: Any) -> bool:
    try:
        parameters = inspect.signature(spec).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def _by_id(name: str, context: EnvContext) -> Any:
    if ":" not in name and "." in name and not registry.env_creator(name):
        # The full path of a class, as some configuration files have it.
        import importlib

        module, _, attribute = name.rpartition(".")
        try:
            return getattr(importlib.import_module(module), attribute)(context)
        except (ImportError, AttributeError):
            pass
    try:
        import gymnasium
    except ImportError:
        known = registry.env_names()
        raise MissingPackageError(
            f"the environment {name!r} is neither built in nor registered{_near(name, known)}, and gymnasium, which may know it, "
            "is not installed: pip install 'eagleray[rllib]', or register_env(name, creator)."
        ) from None
    try:
        # Its checks would run at each step; ours run at the first ones.
        return gymnasium.make(name, disable_env_checker=True, **dict(context))
    except gymnasium.error.UnregisteredEnv as error:
        known = [*registry.env_names(), *gymnasium.registry.keys()]
        raise EnvError(f"there is no environment {name!r}{_near(name, known)}: {error}") from error


def _near(name: str, known: list[str]) -> str:
    found = nearest(name, known)
    return f" (did you mean {found!r}?)" if found else ""
