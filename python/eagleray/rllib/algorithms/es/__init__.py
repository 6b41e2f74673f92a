"""ES by all its names."""

from eagleray.rllib.algorithms.es.es import ES, ESConfig

ESTrainer = ES
DEFAULT_CONFIG = ESConfig().to_dict()

__all__ = ["DEFAULT_CONFIG", "ES", "ESConfig", "ESTrainer"]
