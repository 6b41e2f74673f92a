"""The model that older programs build upon: full layers, and values of their own or of shared ones."""

from __future__ import annotations

from typing import Any

from eagleray.rllib.models.torch.misc import SlimFC, normc_initializer
from eagleray.rllib.models.torch.torch_modelv2 import TorchModelV2

from torch import nn  # isort: skip - `misc` says in words that it is missing


class FullyConnectedNetwork(TorchModelV2, nn.Module):
    """Layers of the sizes in `fcnet_hiddens`; actions and values share them if `vf_share_layers` says so."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        seen = 1
        for size in obs_space.shape:
            seen *= int(size)
        sizes = [*model_config.get("fcnet_hiddens", [256, 256]), *(model_config.get("post_fcnet_hiddens") or [])]
        activation = model_config.get("fcnet_activation", "tanh")
        self._hidden_layers = _hidden(seen, sizes, activation)
        before = sizes[-1] if sizes else seen
        self._logits = None
        if num_outputs and not model_config.get("no_final_linear"):
            self._logits = SlimFC(before, num_outputs, normc_initializer(0.01))
        else:
            self.num_outputs = before
        shares = model_config.get("vf_share_layers", True)
        self._value_branch_separate = None if shares else _hidden(seen, sizes, activation)
        self._value_branch = SlimFC(before, 1, normc_initializer(0.01))
        self._features: Any = None
        self._last_flat_in: Any = None

    def forward(self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """What actions are chosen from."""
        flat = input_dict["obs_flat"].float()
        self._last_flat_in = flat.reshape(flat.shape[0], -1)
        self._features = self._hidden_layers(self._last_flat_in)
        return self._features if self._logits is None else self._logits(self._features), state

    def value_function(self) -> Any:
        """What those observations are worth."""
        if self._features is None:
            raise RuntimeError("value_function() was called before forward()")
        own = self._value_branch_separate
        return self._value_branch(self._features if own is None else own(self._last_flat_in)).squeeze(1)


def _hidden(before: int, sizes: list[int], activation: Any) -> Any:
    layers = []
    for size in sizes:
        layers.append(SlimFC(before, size, normc_initializer(1.0), activation))
        before = size
    return nn.Sequential(*layers)


__all__ = ["FullyConnectedNetwork"]
