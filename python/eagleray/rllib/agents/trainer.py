"""The older name of `Algorithm`."""

from eagleray.rllib.algorithms._settings import MODEL_DEFAULTS
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

Trainer = Algorithm
COMMON_CONFIG = AlgorithmConfig().to_dict()


def with_common_config(extra_config: dict[str, object]) -> dict[str, object]:
    """All common settings, with these over them."""
    return {**COMMON_CONFIG, **extra_config}


__all__ = ["COMMON_CONFIG", "MODEL_DEFAULTS", "Trainer", "with_common_config"]
