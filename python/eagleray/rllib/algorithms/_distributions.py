"""Distributions of actions as newer programs make them: `module.get_exploration_action_dist_cls().from_logits(inputs).sample()`.

Numbers come as networks choose them: between -1 and 1 where the environment's actions have bounds and are normalised. Where there are choices too,
a row holds those first, as numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eagleray.rllib._engine import _dist
from eagleray.rllib.algorithms import _memory

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Acted, Floats


class Distribution:
    """What actions are drawn from, for a batch of a network's outputs. Tensors are answered with tensors."""

    acted: ClassVar[Acted]
    _chance: ClassVar[np.random.Generator] = np.random.default_rng()

    def __init__(self, logits: Any, *, is_certain: bool = False) -> None:
        self._given = logits
        self._inputs: Floats = np.asarray(_memory.as_numpy(logits), np.float32)
        self._form = _dist.dist_of(self.acted)
        self._is_certain = is_certain

    @classmethod
    def from_logits(cls, logits: Any, **_: Any) -> Distribution:
        """One for a network's outputs (`action_dist_inputs`)."""
        return cls(logits)

    def to_deterministic(self) -> Distribution:
        """One that always gives the likeliest action."""
        return type(self)(self._given, is_certain=True)

    def sample(self, **_: Any) -> Any:
        """An action for each row."""
        rows = self._inputs.reshape(-1, self._inputs.shape[-1])
        actions = self._form.draw(rows, None if self._is_certain else self._chance)
        batch = self._inputs.shape[:-1]
        if self.acted.kind != "discrete":
            return _memory.like(self._given, actions.reshape(*batch, -1))
        whole = actions.astype(np.int64)
        return _memory.like(self._given, whole.reshape(*batch, -1) if self.acted.size > 1 else whole.reshape(batch))

    def logp(self, value: Any, **_: Any) -> Any:
        """The logarithm of each action's probability, or density."""
        actions = np.asarray(_memory.as_numpy(value), np.float32).reshape(-1, self.acted.size)
        found = self._form.logp(self._inputs.reshape(-1, self._inputs.shape[-1]), actions)
        return _memory.like(self._given, found.reshape(self._inputs.shape[:-1]))


def class_for(acted: Acted) -> type[Distribution]:
    """The class for these actions."""
    return type("ActionDistribution", (Distribution,), {"acted": acted, "__doc__": Distribution.__doc__})
