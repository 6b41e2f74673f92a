"""Calls callbacks of all eras: each with the arguments that it takes, and nobody for what nobody wants."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from eagleray.rllib.callbacks.callbacks import RLlibCallback

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

#: What is called under two names.
_ALSO = {"on_env_runners_recreated": "on_workers_recreated"}
EPISODE_HOOKS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


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
                for name, function in one.items():
                    self._functions.setdefault(name, []).append(_of_info(function))
                continue
            if isinstance(one, str | int | float):
                raise TypeError(f"`callbacks` must be classes with methods as on_episode_end, not {one!r}")
            self._add(one() if isinstance(one, type) else one)
        for name in vars(config):
            if name.startswith("callbacks_on_") and (said := getattr(config, name)) is not None:
                for function in said if isinstance(said, list | tuple) else [said]:
                    self._functions.setdefault(name.removeprefix("callbacks_"), []).append(_fitting(function))

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
