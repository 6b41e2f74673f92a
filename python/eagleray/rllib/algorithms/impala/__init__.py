"""IMPALA by all its names."""

from eagleray.rllib.algorithms.impala.impala import IMPALA, IMPALAConfig

Impala = ImpalaTrainer = IMPALATrainer = IMPALA
ImpalaConfig = IMPALAConfig
DEFAULT_CONFIG = IMPALAConfig().to_dict()

__all__ = ["DEFAULT_CONFIG", "IMPALA", "IMPALAConfig", "IMPALATrainer", "Impala", "ImpalaConfig", "ImpalaTrainer"]
