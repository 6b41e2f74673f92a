"""SAC by all its names."""

from eagleray.rllib.algorithms.sac.sac import SAC, SACConfig

SACTrainer = SAC
DEFAULT_CONFIG = SACConfig().to_dict()

__all__ = ["DEFAULT_CONFIG", "SAC", "SACConfig", "SACTrainer"]
