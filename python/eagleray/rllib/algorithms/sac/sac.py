"""SAC: learns to act well and as variously as it can from what it remembers."""

from __future__ import annotations

from typing import Any, ClassVar

from eagleray.rllib.algorithms._off_policy import OffPolicy
from eagleray.rllib.algorithms.sac.sac_config import SACConfig


class SAC(OffPolicy):
    """Soft actor-critic."""

    config_class: ClassVar[type[SACConfig]] = SACConfig

    def settings_now(self, policy_id: str) -> dict[str, Any]:
        """The three learning rates, as they are now."""
        now = super().settings_now(policy_id)
        rates: dict[str, Any] = self.config.get_config_for_module(policy_id).rates()
        return now | {f"{part}_lr": self._scheduled(policy_id, f"{part}_lr", rate) for part, rate in rates.items()}


__all__ = ["SAC", "SACConfig"]
