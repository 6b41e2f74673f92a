"""A queue of samples: for algorithms that learn from each once."""

from __future__ import annotations

from typing import Any

from eagleray.rllib.policy.sample_batch import SampleBatch
from eagleray.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer, StorageUnit


class FifoReplayBuffer(ReplayBuffer):
    """Gives each batch once, the oldest first, whole as it was added.

    Args:
        *args: what other buffers take.
        **kwargs: what other buffers take.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(capacity=1, storage_unit=StorageUnit.FRAGMENTS)

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        self._storage.append(item)
        self._num_timesteps_added += item.count

    def sample(self, num_items: int | None = None, **kwargs: Any) -> Any:
        """The oldest batch; an empty one if there is none."""
        if not self._storage:
            return SampleBatch()
        found = self._storage.pop(0)
        self._num_timesteps_sampled += found.count
        return found


__all__ = ["FifoReplayBuffer"]
