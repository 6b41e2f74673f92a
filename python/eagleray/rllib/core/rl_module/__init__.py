"""Networks and how they are described."""

from eagleray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from eagleray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from eagleray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

__all__ = ["DefaultModelConfig", "MultiRLModuleSpec", "RLModule", "RLModuleSpec"]
