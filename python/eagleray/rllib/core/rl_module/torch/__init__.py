"""Modules of one's own that are torch's."""

from eagleray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

__all__ = ["TorchRLModule"]
