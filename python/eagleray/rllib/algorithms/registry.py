"""Algorithms by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eagleray._common.near import nearest

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm

#: Name -> module and class.
ALGORITHMS: dict[str, tuple[str, str]] = {
    "A2C": ("a2c", "A2C"),
    "DQN": ("dqn", "DQN"),
    "ES": ("es", "ES"),
    "IMPALA": ("impala", "IMPALA"),
    "PPO": ("ppo", "PPO"),
    "SAC": ("sac", "SAC"),
}


def get_algorithm_class(alg: str, *, return_config: bool = False) -> Any:
    """The class of this name; with `return_config` also its configuration as a dictionary."""
    if alg not in ALGORITHMS:
        known = {name.lower(): name for name in ALGORITHMS}
        near = known.get(alg.lower()) or nearest(alg, ALGORITHMS, cutoff=0.4)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ValueError(f"Unknown algorithm: {alg}.{hint} There are {', '.join(ALGORITHMS)}.")
    module, name = ALGORITHMS[alg]
    found: type[Algorithm] = getattr(importlib.import_module(f"eagleray.rllib.algorithms.{module}"), name)
    return (found, found.get_default_config().to_dict()) if return_config else found
