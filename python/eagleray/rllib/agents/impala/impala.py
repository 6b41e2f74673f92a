"""IMPALA under its older path."""

from eagleray.rllib.algorithms.impala import DEFAULT_CONFIG, IMPALA, IMPALAConfig, IMPALATrainer, ImpalaTrainer

__all__ = ["DEFAULT_CONFIG", "IMPALA", "IMPALAConfig", "IMPALATrainer", "ImpalaTrainer"]
