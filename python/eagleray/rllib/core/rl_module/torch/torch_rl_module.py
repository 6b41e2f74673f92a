"""What newer programs derive their torch models from."""

from __future__ import annotations

from typing import Any

from eagleray.rllib.core.rl_module.rl_module import RLModule
from eagleray.rllib.utils.framework import torch_needed

torch_needed("TorchRLModule")

from torch import nn  # noqa: E402 - said in words first if it is missing


class TorchRLModule(nn.Module, RLModule):
    """A model of the newer kind in torch. See `RLModule` for what to write.

    Args:
        observation_space: what it sees.
        action_space: what it chooses.
        inference_only: whether it only acts.
        model_config: what the program said in its spec, or in `rl_module(model_config=...)`.
    """

    framework = "torch"

    def __init__(
        self,
        *args: Any,
        observation_space: Any = None,
        action_space: Any = None,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: Any = None,
        catalog_class: Any = None,
        **_: Any,
    ) -> None:
        nn.Module.__init__(self)
        self.observation_space = observation_space
        self.action_space = action_space
        self.inference_only = inference_only
        self.learner_only = learner_only
        self.model_config = {} if model_config is None else model_config
        self.setup()

    def forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What losses are made of: calling the module is the same."""
        return self.forward_train(batch, **kwargs)

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Its weights as numpy's arrays."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take weights."""
        import torch

        self.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})


__all__ = ["TorchRLModule"]
