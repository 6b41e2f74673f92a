"""What newer programs derive their models from, and how they say which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class RLModule:
    """A model of the newer kind: made with spaces, called with a batch.

    `setup()` makes its layers; `_forward(batch)` gives `{"action_dist_inputs": ...}`, and where acting and learning differ so do
    `_forward_inference`, `_forward_exploration` and `_forward_train`.
    """

    observation_space: Any
    action_space: Any
    model_config: Any
    inference_only: bool

    @classmethod
    def from_checkpoint(cls, path: Any, *_: Any, **__: Any) -> Any:
        """A network to act with, without its algorithm: of a policy's folder, or by name those of a checkpoint or its `rl_module` folder."""
        from eagleray.rllib.algorithms import _deployed, _views

        found = _deployed.policies(path)
        if isinstance(found, dict):
            return {name: _views.module_of(view) for name, view in found.items()}
        return _views.module_of(found)

    def setup(self) -> None:
        """Make the layers. Modules write it."""

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What actions are chosen from. Modules write it."""
        raise NotImplementedError(f"{type(self).__name__} has no _forward(batch)")

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The same where the best action is wanted."""
        return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The same where samples are made."""
        return self._forward(batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The same where it is learned from; what it gives beside is handed to `compute_values` as `embeddings`."""
        return self._forward(batch, **kwargs)

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What the best action is chosen from."""
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What samples are drawn from."""
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What losses are made of."""
        return self._forward_train(batch, **kwargs)

    def is_stateful(self) -> bool:
        """Whether it remembers."""
        return bool(self.get_initial_state())

    def get_initial_state(self) -> Any:
        """What a module that remembers begins with: nothing."""
        return {}


@dataclass
class RLModuleSpec:
    """Which module: its class and what it is told. What is left out is the environment's and the configuration's."""

    module_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config: Any = None
    catalog_class: Any = None
    load_state_path: str | None = None


__all__ = ["RLModule", "RLModuleSpec"]
