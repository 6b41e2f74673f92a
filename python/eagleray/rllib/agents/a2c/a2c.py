"""A2C under its older path."""

from eagleray.rllib.algorithms.a2c import A2C, DEFAULT_CONFIG, A2CConfig, A2CTrainer

__all__ = ["A2C", "DEFAULT_CONFIG", "A2CConfig", "A2CTrainer"]
