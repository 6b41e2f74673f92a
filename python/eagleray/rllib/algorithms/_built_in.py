"""A built-in network as `get_policy().model` shows it: what there is to look at, and a word about what it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Floats
    from eagleray.rllib.algorithms._views import PolicyView

#: Where to go from here.
_INSTEAD = (
    "eagleray.rllib.export.to_torch(algorithm) makes a torch module of it, and to_numpy a function; policy.get_weights() and set_weights() "
    "read and write its weights"
)


class BuiltInModel:
    """The network of a policy, to be looked at. Arrays are as they are when asked for, and cannot be written to.

    Of SAC it is the part that acts: critics are the learner's.
    """

    __slots__ = ("_policy",)

    _policy: PolicyView

    def __init__(self, policy: PolicyView) -> None:
        object.__setattr__(self, "_policy", policy)

    def variables(self, as_dict: bool = False) -> list[Floats] | dict[str, Floats]:  # noqa: FBT001, FBT002 - RLlib's signature
        """All weights, or weights by the names of their tensors."""
        arrays = {name: array.view() for name, array in self._policy.get_weights().items()}
        for array in arrays.values():
            array.flags.writeable = False
        return arrays if as_dict else list(arrays.values())

    # Nothing in it is fixed.
    trainable_variables = variables

    @property
    def num_parameters(self) -> int:
        """Numbers that are learned."""
        return sum(int(array.size) for array in self._policy.get_weights().values())

    @property
    def obs_space(self) -> Any:
        """What it sees."""
        return self._policy.observation_space

    @property
    def action_space(self) -> Any:
        """What it chooses from."""
        return self._policy.action_space

    @property
    def model_config(self) -> dict[str, Any]:
        """What it was planned from."""
        return dict(self._policy.plan().model)

    def __repr__(self) -> str:
        weights = self._policy.get_weights()
        width = max(map(len, weights), default=0)
        rows = [f"  {name:{width}}  {' x '.join(map(str, array.shape))}" for name, array in weights.items()]
        title = (
            f"{self._policy.plan().algorithm} network of {self._policy.policy_id}, {self.num_parameters:,} parameters"
        )
        return "\n".join([title, *rows])

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"a built-in network is not called from Python: {_INSTEAD}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a built-in network is no torch module and has no {name!r}: {_INSTEAD}", name=name, obj=self
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"a built-in network cannot be changed by setting {name!r}: {_INSTEAD}", name=name, obj=self
        )


__all__ = ["BuiltInModel"]
