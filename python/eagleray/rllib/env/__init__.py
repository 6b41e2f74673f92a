"""Environments: of gymnasium and gym, vectors, several agents, simulators that drive themselves."""

from eagleray.rllib.env.base_env import BaseEnv
from eagleray.rllib.env.env_context import EnvContext
from eagleray.rllib.env.external_env import ExternalEnv
from eagleray.rllib.env.multi_agent_env import MultiAgentEnv
from eagleray.rllib.env.vector_env import VectorEnv

__all__ = ["BaseEnv", "EnvContext", "ExternalEnv", "MultiAgentEnv", "VectorEnv"]
