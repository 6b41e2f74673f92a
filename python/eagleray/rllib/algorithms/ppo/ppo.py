"""PPO: several passes over each batch, which may not lead far from the policy that made it."""

from __future__ import annotations

from typing import Any, ClassVar

from eagleray.rllib.algorithms._on_policy import OnPolicy
from eagleray.rllib.algorithms.ppo.ppo_config import PPOConfig


class PPO(OnPolicy):
    """Proximal policy optimisation."""

    config_class: ClassVar[type[PPOConfig]] = PPOConfig

    def settings_now(self, policy_id: str) -> dict[str, Any]:
        """What changes with the timestep, how far ratios count among it."""
        given = self.config.get_config_for_module(policy_id).clip_param
        return super().settings_now(policy_id) | {"clip_param": self._scheduled(policy_id, "clip_param", given)}


__all__ = ["PPO", "PPOConfig"]
