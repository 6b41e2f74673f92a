"""Environments: of gymnasium and gym, vectors, several agents, simulators that drive themselves."""

from typing import Any

from eagleray.rllib.env.base_env import BaseEnv
from eagleray.rllib.env.env_context import EnvContext
from eagleray.rllib.env.external_env import ExternalEnv
from eagleray.rllib.env.multi_agent_env import MultiAgentEnv
from eagleray.rllib.env.vector_env import VectorEnv

__all__ = ["BaseEnv", "EnvContext", "ExternalEnv", "MultiAgentEnv", "VectorEnv"]


def __getattr__(name: str) -> Any:
    """Server and client of policies need numpy, which importing this must not."""
    if name == "PolicyClient":
        from eagleray.rllib.env.policy_client import PolicyClient

        return PolicyClient
    if name == "PolicyServerInput":
        from eagleray.rllib.env.policy_server_input import PolicyServerInput

        return PolicyServerInput
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
