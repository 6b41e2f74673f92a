"""DQN: learns what actions are worth from what it remembers."""

from __future__ import annotations

from typing import ClassVar

from eagleray.rllib.algorithms._off_policy import OffPolicy
from eagleray.rllib.algorithms.dqn.dqn_config import DQNConfig


class DQN(OffPolicy):
    """Deep Q-networks: double, dueling, prioritised, with several steps, as configured."""

    config_class: ClassVar[type[DQNConfig]] = DQNConfig

    def exploration_of(self, policy_id: str) -> dict[str, float]:
        """How often it tries something at random."""
        config = self.config.get_config_for_module(policy_id)
        return {"epsilon": self._scheduled(policy_id, "epsilon", config.epsilon)}


__all__ = ["DQN", "DQNConfig"]
