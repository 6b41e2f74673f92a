"""What older programs derive their models from."""

from __future__ import annotations

from typing import Any


class ModelV2:
    """A model of the older kind: made with spaces, called with a dictionary of observations.

    Args:
        obs_space: what rows of observations look like; `original_space` is the environment's own.
        action_space: the environment's.
        num_outputs: numbers that `forward` gives for each observation.
        model_config: the settings in `model={...}`; the model's own are in `custom_model_config`.
        name: what it is called.
        framework: "torch".
    """

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: Any,
        name: str,
        framework: str = "torch",
    ) -> None:
        self.obs_space = obs_space
        self.action_space = action_space
        self.num_outputs = num_outputs
        self.model_config = model_config
        self.name = name
        self.framework = framework

    def forward(self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """What actions are chosen from, and the next state. Models write it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(input_dict, state, seq_lens)")

    def value_function(self) -> Any:
        """What the states of the last `forward` are worth. Models write it."""
        raise NotImplementedError(f"{type(self).__name__} has no value_function()")

    def get_initial_state(self) -> list[Any]:
        """What a model that remembers begins with: nothing."""
        return []

    def custom_loss(self, policy_loss: Any, loss_inputs: dict[str, Any]) -> Any:
        """What is minimised, given what would be without this."""
        return policy_loss

    def metrics(self) -> dict[str, Any]:
        """What a model wants to say beside its losses."""
        return {}

    def is_time_major(self) -> bool:
        """Whether sequences have time first. There are none."""
        return False

    def __call__(self, input_dict: dict[str, Any], state: list[Any] | None = None, seq_lens: Any = None) -> Any:
        """Call `forward`, with what was left out filled in."""
        given = dict(input_dict)
        if "obs_flat" not in given and not isinstance(given["obs"], dict | tuple | list):
            seen = given["obs"]
            given["obs_flat"] = seen.reshape(seen.shape[0], -1)
        return self.forward(given, state or [], seq_lens)


__all__ = ["ModelV2"]
