"""Algorithms under the paths and names that they had until 2022: `rllib.agents.ppo.PPOTrainer`."""

from eagleray.rllib.agents.trainer import Trainer

__all__ = ["Trainer"]
