"""Reinforcement learning: `PPOConfig().environment("CartPole-v1").build_algo().train()`, or `tune.run("PPO", config={...})`."""

from __future__ import annotations

import importlib
from typing import Any

# Looked up when first used: whoever only imports this package needs neither numpy nor gymnasium.
_LAZY = {
    "Algorithm": "eagleray.rllib.algorithms.algorithm",
    "AlgorithmConfig": "eagleray.rllib.algorithms.algorithm_config",
    "EnvContext": "eagleray.rllib.env.env_context",
    "ExternalEnv": "eagleray.rllib.env.external_env",
    "MultiAgentEnv": "eagleray.rllib.env.multi_agent_env",
    "PolicySpec": "eagleray.rllib.policy.policy",
    "VectorEnv": "eagleray.rllib.env.vector_env",
}

__all__ = [
    "Algorithm",
    "AlgorithmConfig",
    "EnvContext",
    "ExternalEnv",
    "MultiAgentEnv",
    "PolicySpec",
    "VectorEnv",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"eagleray.rllib.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"eagleray.rllib.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
