"""Calls callbacks of all eras: each with the arguments that it takes, and nobody for what nobody wants."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from eagleray._common.near import hint
from eagleray.rllib.callbacks.callbacks import RLlibCallback

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

#: What is called under two names.
_ALSO = {"on_env_runners_recreated": "on_workers_recreated"}
EPISODE_HOOKS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")
#: Nobody calls it: there is no Python object per trajectory.
UNCALLED = "on_postprocess_trajectory"
#: All that is called.
NAMES = frozenset(name for name in dir(RLlibCallback) if name.startswith("on_") and name != UNCALLED)


def checked(name: str, said: Any) -> list[Callable[..., Any]]:
    """The functions given under this name: one, or several in a list. Refuses names that nobody calls, and what cannot be called."""
    if name in (UNCALLED, "on_postprocess_traj"):
        raise TypeError(
            f"{name} is not called here, as steps are not Python objects: on_sample_end has them as columns"
        )
    if name not in NAMES:
        meant = hint(name, sorted(NAMES)) or f" There are {', '.join(sorted(NAMES))}."
        raise TypeError(f"callbacks() got an unexpected keyword argument {name!r}.{meant}")
    functions = list(said) if isinstance(said, list | tuple) else [said]
    for function in functions:
        if not callable(function):
            raise TypeError(f"{name} must be a function or a list of functions, not {function!r}")
    return functions


class Hooks:
    """Everyone who is told of what happens."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self._functions: dict[str, list[Callable[..., Any]]] = {}
        given = config.callbacks_class
        for one in given if isinstance(given, list | tuple) else [given]:
            if one is None:
                continue
            if isinstance(one, dict):
                # The oldest form: functions of one dictionary.
                for name, said in one.items():
                    self._functions.setdefault(name, []).extend(map(_of_info, checked(name, said)))
                continue
            if isinstance(one, str | int | float):
                raise TypeError(f"`callbacks` must be classes with methods as on_episode_end, not {one!r}")
            self._add(one() if isinstance(one, type) else one)
        for name in vars(config):
            if name.startswith("callbacks_on_") and (said := getattr(config, name)) is not None:
                hook = name.removeprefix("callbacks_")
                self._functions.setdefault(hook, []).extend(map(_fitting, checked(hook, said)))

    def _add(self, instance: Any) -> None:
        for name in dir(instance):
            if not name.startswith("on_"):
                continue
            # What only the base class has does nothing, and need not be called.
            if getattr(type(instance), name, None) is not getattr(RLlibCallback, name, None):
                self._functions.setdefault(name, []).append(_fitting(getattr(instance, name)))

    def wants(self, *names: str) -> bool:
        """Whether anybody wants to hear of one of these."""
        return any(name in self._functions for name in names)

    def call(self, hook: str, **arguments: Any) -> None:
        """Tells everyone who wants to hear of it."""
        for name in (hook, _ALSO.get(hook, "")):
            for function in self._functions.get(name, ()):
                function(**arguments)


def _fitting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with those arguments only that it takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return function
    names = set(parameters)
    return lambda **arguments: function(**{name: value for name, value in arguments.items() if name in names})


def _of_info(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **arguments: function({**arguments, "trainer": arguments.get("algorithm")})
