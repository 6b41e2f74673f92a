"""Parts that older programs build their models of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.rllib.utils.framework import torch_needed

torch_needed("eagleray.rllib.models.torch.misc")

import torch  # noqa: E402 - said in words first if it is missing
from torch import nn  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

_ACTIVATIONS: dict[str | None, Any] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "linear": None,
    None: None,
}


def activation_of(name: Any) -> Any:
    """The module class of an activation by its name; None for none."""
    if not isinstance(name, str | None):
        return name
    if name not in _ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is none of {sorted(known for known in _ACTIVATIONS if known)}")
    return _ACTIVATIONS[name]


def normc_initializer(std: float = 1.0) -> Callable[[Any], None]:
    """Rows of weights that are drawn at random and all have this length."""

    def fill(tensor: Any) -> None:
        drawn = torch.randn_like(tensor)
        tensor.data.copy_(std * drawn / drawn.pow(2).sum(1, keepdim=True).sqrt())

    return fill


class SlimFC(nn.Module):
    """A full layer and what is done with its sums."""

    def __init__(
        self,
        in_size: int,
        out_size: int,
        initializer: Any = None,
        activation_fn: Any = None,
        use_bias: bool = True,  # noqa: FBT001, FBT002 - RLlib's signature
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        layer = nn.Linear(in_size, out_size, bias=use_bias)
        (initializer or nn.init.xavier_uniform_)(layer.weight)
        if use_bias:
            nn.init.constant_(layer.bias, bias_init)
        activation = activation_of(activation_fn)
        self._model = nn.Sequential(layer) if activation is None else nn.Sequential(layer, activation())

    def forward(self, x: Any) -> Any:
        """What comes out for these rows."""
        return self._model(x)


__all__ = ["SlimFC", "normc_initializer"]
