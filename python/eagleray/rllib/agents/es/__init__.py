"""ES under its older path."""

from eagleray.rllib.algorithms.es import DEFAULT_CONFIG, ES, ESConfig, ESTrainer

__all__ = ["DEFAULT_CONFIG", "ES", "ESConfig", "ESTrainer"]
