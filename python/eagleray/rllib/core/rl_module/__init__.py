"""Networks and how they are described."""

from eagleray.rllib.core.rl_module.default_model_config import DefaultModelConfig

__all__ = ["DefaultModelConfig"]
