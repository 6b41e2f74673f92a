"""A2C by all its names."""

from eagleray.rllib.algorithms.a2c.a2c import A2C, A2CConfig

A2CTrainer = A2C
DEFAULT_CONFIG = A2CConfig().to_dict()

__all__ = ["A2C", "DEFAULT_CONFIG", "A2CConfig", "A2CTrainer"]
