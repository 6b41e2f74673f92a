"""One environment, of gymnasium's step with five parts or of gym's with four, reset with or without a seed."""

from __future__ import annotations

import inspect
from typing import Any

from eagleray.rllib.utils.error import EnvError

#: Wrappers of gymnasium that do at each step what is done here once, or by a count.
_PEELED = {"OrderEnforcing", "PassiveEnvChecker", "TimeLimit"}


def peeled(env: Any) -> tuple[Any, int | None]:
    """The environment without wrappers that only check or count, and the steps that it may take."""
    limit: int | None = None
    while type(env).__name__ in _PEELED and type(env).__module__.startswith("gymnasium."):
        if type(env).__name__ == "TimeLimit":
            steps = int(env._max_episode_steps)
            limit = steps if limit is None else min(limit, steps)
        env = env.env
    return env, limit


def reset(env: Any, seed: int | None) -> tuple[Any, dict[Any, Any]]:
    """The first observation and what is said beside it."""
    if seed is None:
        said = env.reset()
    elif _takes_seed(env):
        said = env.reset(seed=seed)
    else:
        if callable(old := getattr(env, "seed", None)):
            old(seed)
        said = env.reset()
    if isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], dict):
        return said
    if said is None or (isinstance(said, tuple) and any(isinstance(part, dict) for part in said[1:])):
        raise EnvError(f"reset() must return an observation, or an observation and a dictionary, not {said!r}")
    return said, {}


def _takes_seed(env: Any) -> bool:
    try:
        parameters = inspect.signature(env.reset).parameters
    except (TypeError, ValueError):
        return False
    return "seed" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def parts(said: Any) -> tuple[Any, Any, bool, bool, dict[Any, Any]]:
    """What a step returned, in five parts."""
    try:
        count = len(said)
    except TypeError:
        count = 0
    if count == 5:
        observation, reward, terminated, truncated, info = said
        return observation, reward, bool(terminated), bool(truncated), info
    if count == 4:
        observation, reward, done, info = said
        # The older gym's time limit said so beside the end.
        cut = bool(done) and isinstance(info, dict) and bool(info.get("TimeLimit.truncated"))
        return observation, reward, bool(done) and not cut, cut, info
    raise EnvError(f"step() must return four or five parts, not {said!r}")
