"""One buffer with priorities for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eagleray.rllib.utils.replay_buffers.multi_agent_replay_buffer import MultiAgentReplayBuffer
from eagleray.rllib.utils.replay_buffers.prioritized_replay_buffer import PrioritizedReplayBuffer

if TYPE_CHECKING:
    from eagleray.rllib.utils.replay_buffers.replay_buffer import StorageUnit


class MultiAgentPrioritizedReplayBuffer(MultiAgentReplayBuffer):
    """Keeps the samples of each policy apart, and draws by priorities.

    Args:
        capacity: of each policy's buffer.
        storage_unit: what an item is.
        num_shards: how many such buffers share the capacity.
        replay_mode: "independent"; priorities are of single policies.
        prioritized_replay_alpha: 0 for all alike, 1 for chances as priorities.
        prioritized_replay_beta: how much `weights` make up for the chances.
        prioritized_replay_eps: is added to every priority, so that none is 0.
        **kwargs: what other buffers take.
    """

    _kind = PrioritizedReplayBuffer

    def __init__(
        self,
        capacity: int = 10_000,
        storage_unit: str | StorageUnit = "timesteps",
        num_shards: int = 1,
        replay_mode: str = "independent",
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta: float = 0.4,
        prioritized_replay_eps: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(capacity, storage_unit, num_shards, replay_mode, alpha=prioritized_replay_alpha, **kwargs)
        self._beta, self._eps = prioritized_replay_beta, prioritized_replay_eps

    def sample(self, num_items: int | None = None, policy_id: str | None = None, **kwargs: Any) -> Any:
        """So many items of one policy, or of each."""
        return super().sample(num_items, policy_id, **{"beta": self._beta, **kwargs})

    def update_priorities(self, prio_dict: dict[str, tuple[Any, Any]]) -> None:
        """Sets priorities: by policy, `batch_indexes` and how wrong each prediction was."""
        for policy, (places, errors) in prio_dict.items():
            buffer = self.replay_buffers[policy]
            assert isinstance(buffer, PrioritizedReplayBuffer)
            buffer.update_priorities(places, [float(error) for error in np.abs(errors) + self._eps])


__all__ = ["MultiAgentPrioritizedReplayBuffer"]
