"""Algorithms by their newer names."""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "Algorithm": "algorithm",
    "AlgorithmConfig": "algorithm_config",
    **{f"{name}{end}": name.lower() for name in ("A2C", "DQN", "ES", "IMPALA", "PPO", "SAC") for end in ("", "Config")},
    "Impala": "impala",
    "ImpalaConfig": "impala",
}

__all__ = [
    "A2C",
    "DQN",
    "ES",
    "IMPALA",
    "PPO",
    "SAC",
    "A2CConfig",
    "Algorithm",
    "AlgorithmConfig",
    "DQNConfig",
    "ESConfig",
    "IMPALAConfig",
    "Impala",
    "ImpalaConfig",
    "PPOConfig",
    "SACConfig",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"eagleray.rllib.algorithms.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
