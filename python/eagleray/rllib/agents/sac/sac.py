"""SAC under its older path."""

from eagleray.rllib.algorithms.sac import DEFAULT_CONFIG, SAC, SACConfig, SACTrainer

__all__ = ["DEFAULT_CONFIG", "SAC", "SACConfig", "SACTrainer"]
