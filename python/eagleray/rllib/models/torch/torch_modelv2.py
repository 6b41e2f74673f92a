"""What older programs derive their torch models from."""

from __future__ import annotations

from eagleray.rllib.models.modelv2 import ModelV2


class TorchModelV2(ModelV2):
    """A model of the older kind in torch: `class Mine(TorchModelV2, nn.Module)`.

    Its constructor calls both parents': `TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)` and
    `nn.Module.__init__(self)`. `forward(input_dict, state, seq_lens)` gives what actions are chosen from and the state; what the same
    observations are worth is asked of `value_function()` right after it.
    """


__all__ = ["TorchModelV2"]
