"""A ring of samples, from which some are drawn."""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np

from eagleray.rllib.policy.sample_batch import SampleBatch, concat_samples
from eagleray.rllib.utils.replay_buffers.base import ReplayBufferInterface


class StorageUnit(Enum):
    """What one item of a buffer is."""

    TIMESTEPS = "timesteps"
    SEQUENCES = "sequences"
    EPISODES = "episodes"
    FRAGMENTS = "fragments"


class ReplayBuffer(ReplayBufferInterface):
    """Keeps the newest samples. Each is drawn as likely as any other, and may be drawn again.

    Args:
        capacity: how many items it keeps.
        storage_unit: what an item is: a step, a sequence (`seq_lens`), a whole episode, or a batch as it was added.
        **kwargs: what other buffers take.
    """

    def __init__(self, capacity: int = 10_000, storage_unit: str | StorageUnit = "timesteps", **kwargs: Any) -> None:
        try:
            self.storage_unit = StorageUnit(storage_unit)
        except ValueError:
            known = [unit.value for unit in StorageUnit]
            raise ValueError(f"storage_unit must be one of {known}, not {storage_unit!r}") from None
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity!r}")
        self.capacity = capacity
        self._storage: list[Any] = []
        self._next_idx = 0
        self._num_timesteps_added = 0
        self._num_timesteps_added_wrap = 0
        self._num_timesteps_sampled = 0
        self._eviction_started = False

    def __len__(self) -> int:
        return len(self._storage)

    def add(self, batch: Any, **kwargs: Any) -> None:
        """Adds a batch, cut into items."""
        for item in self._items(batch):
            if item.count:
                self._add_single_batch(item, **kwargs)

    def _items(self, batch: Any) -> list[Any]:
        unit = self.storage_unit
        if unit is StorageUnit.FRAGMENTS:
            return [batch]
        if unit is StorageUnit.TIMESTEPS:
            return list(batch.timeslices(size=1))
        if unit is StorageUnit.EPISODES:
            return [episode for episode in batch.split_by_episode() if _is_whole(episode)]
        ends = np.cumsum([0, *np.asarray(batch[SampleBatch.SEQ_LENS], dtype=int)])
        steps = SampleBatch({name: column for name, column in batch.items() if name != SampleBatch.SEQ_LENS})
        return [steps.slice(int(start), int(end)) for start, end in pairwise(ends)]

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        """Puts one item into the ring."""
        if self._next_idx >= len(self._storage):
            self._storage.append(item)
        else:
            self._eviction_started = True
            self._storage[self._next_idx] = item
        self._next_idx = (self._next_idx + 1) % self.capacity
        self._num_timesteps_added += item.count

    def sample(self, num_items: int | None = None, **kwargs: Any) -> Any:
        """So many items, as one batch.

        Raises:
            ValueError: if there are none to draw from.
        """
        self._refuse_empty()
        return self._given([int(index) for index in np.random.randint(0, len(self), num_items or 1)])

    def _refuse_empty(self) -> None:
        if not len(self):
            raise ValueError("Trying to sample from an empty buffer.")

    def _given(self, indices: list[int]) -> Any:
        found = self._encode_sample(indices)
        self._num_timesteps_sampled += found.count
        return found

    def _encode_sample(self, idxes: list[int]) -> Any:
        """The items at these places as one batch."""
        return concat_samples([self._storage[index] for index in idxes])

    def stats(self, debug: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """How much came and went."""
        said = {
            "added_count": self._num_timesteps_added,
            "sampled_count": self._num_timesteps_sampled,
            "num_entries": len(self),
            "eviction_started": self._eviction_started,
        }
        if debug:
            said["est_size_bytes"] = sum(item.size_bytes() for item in self._storage)
        return said

    def get_state(self) -> dict[str, Any]:
        """All that it has."""
        return {name: list(value) if isinstance(value, list) else value for name, value in vars(self).items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up what another one had."""
        vars(self).update({name: list(value) if isinstance(value, list) else value for name, value in state.items()})


def _is_whole(episode: SampleBatch) -> bool:
    ends = [name for name in (SampleBatch.TERMINATEDS, SampleBatch.TRUNCATEDS, SampleBatch.DONES) if name in episode]
    starts = SampleBatch.T not in episode or int(episode[SampleBatch.T][0]) == 0
    return bool(episode.count) and starts and any(bool(episode[name][-1]) for name in ends)


__all__ = ["ReplayBuffer", "StorageUnit"]
