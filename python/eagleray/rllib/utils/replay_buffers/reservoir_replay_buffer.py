"""A sample of all that ever came."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagleray.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer


class ReservoirReplayBuffer(ReplayBuffer):
    """Of all items that were added each is kept as likely as any other, however long ago it came (Vitter 1985)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._num_add_calls = 0

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        self._num_add_calls += 1
        if len(self._storage) < self.capacity:
            super()._add_single_batch(item, **kwargs)
            return
        place = int(np.random.randint(0, self._num_add_calls))
        self._num_timesteps_added += item.count
        if place < self.capacity:
            self._eviction_started = True
            self._storage[place] = item


__all__ = ["ReservoirReplayBuffer"]
