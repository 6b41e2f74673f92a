"""PPO: several passes over each batch, which may not lead far from the policy that made it."""

from __future__ import annotations

from typing import ClassVar

from eagleray.rllib.algorithms._on_policy import OnPolicy
from eagleray.rllib.algorithms.ppo.ppo_config import PPOConfig


class PPO(OnPolicy):
    """Proximal policy optimisation."""

    config_class: ClassVar[type[PPOConfig]] = PPOConfig


__all__ = ["PPO", "PPOConfig"]
