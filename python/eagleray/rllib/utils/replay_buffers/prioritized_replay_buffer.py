"""Samples that are drawn the more often the more there was to learn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eagleray.rllib.policy.sample_batch import SampleBatch
from eagleray.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer, StorageUnit

if TYPE_CHECKING:
    from collections.abc import Sequence


class PrioritizedReplayBuffer(ReplayBuffer):
    """Prioritized replay (Schaul 2015): an item's chance is its priority to the power of alpha.

    Args:
        capacity: how many items it keeps.
        storage_unit: what an item is.
        alpha: 0 for all alike, 1 for chances as priorities.
        **kwargs: what other buffers take.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        storage_unit: str | StorageUnit = "timesteps",
        alpha: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(capacity, storage_unit, **kwargs)
        if alpha < 0:
            raise ValueError(f"alpha must not be negative: {alpha!r}")
        self._alpha = alpha
        self._max_priority = 1.0
        self._weights: list[float] = []

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        place = self._next_idx
        super()._add_single_batch(item)
        weight = kwargs.get("weight")
        # What is new is as likely as the likeliest, so that it is seen once.
        value = float(self._max_priority if weight is None else weight) ** self._alpha
        if place < len(self._weights):
            self._weights[place] = value
        else:
            self._weights.append(value)

    def sample(self, num_items: int | None = None, beta: float = 0.4, **kwargs: Any) -> Any:
        """So many items, with `weights` that make up for their chances, and `batch_indexes` for `update_priorities`.

        Args:
            num_items: how many.
            beta: 0 for no making up, 1 for all of it.
            **kwargs: what other buffers take.
        """
        self._refuse_empty()
        if beta < 0:
            raise ValueError(f"beta must not be negative: {beta!r}")
        chances = np.asarray(self._weights) / np.sum(self._weights)
        drawn = np.random.choice(len(chances), num_items or 1, p=chances)
        found = self._given([int(index) for index in drawn])
        scale = (len(self) * chances.min()) ** -beta
        lengths = [self._storage[index].count for index in drawn]
        each = (len(self) * chances[drawn]) ** -beta / scale
        if isinstance(found, SampleBatch):
            found["weights"] = np.repeat(each, lengths)
            found["batch_indexes"] = np.repeat(drawn, lengths)
        return found

    def update_priorities(self, idxes: Sequence[int], priorities: Sequence[float]) -> None:
        """Sets the priorities of items, by what `batch_indexes` said."""
        if len(idxes) != len(priorities):
            raise ValueError(f"there are {len(idxes)} places and {len(priorities)} priorities")
        for index, priority in zip(idxes, priorities, strict=True):
            if not 0 <= index < len(self):
                raise IndexError(f"there is no item at {index}")
            if not priority > 0:
                raise ValueError(f"a priority is greater than 0: {priority!r}")
            self._weights[int(index)] = float(priority) ** self._alpha
            self._max_priority = max(self._max_priority, float(priority))


__all__ = ["PrioritizedReplayBuffer"]
