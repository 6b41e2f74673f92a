"""One buffer for each policy."""

from __future__ import annotations

from typing import Any

from eagleray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from eagleray.rllib.utils.replay_buffers.base import ReplayBufferInterface
from eagleray.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer, StorageUnit

#: Whose buffer it is where all policies replay the same steps.
_ALL_POLICIES = "__all__"


class MultiAgentReplayBuffer(ReplayBufferInterface):
    """Keeps the samples of each policy apart, or, in lockstep, those of all together.

    Args:
        capacity: of each policy's buffer.
        storage_unit: what an item is.
        num_shards: how many such buffers share the capacity.
        replay_mode: "independent" or "lockstep".
        underlying_buffer_config: `type` and arguments of the policies' buffers.
        **kwargs: what other buffers take.
    """

    _kind: type[ReplayBuffer] = ReplayBuffer

    def __init__(
        self,
        capacity: int = 10_000,
        storage_unit: str | StorageUnit = "timesteps",
        num_shards: int = 1,
        replay_mode: str = "independent",
        underlying_buffer_config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if replay_mode not in ("independent", "lockstep"):
            raise ValueError(f"replay_mode must be 'independent' or 'lockstep', not {replay_mode!r}")
        given = dict(underlying_buffer_config or {})
        self._made = _class_of(given.pop("type", self._kind))
        self._options = {"capacity": max(capacity // num_shards, 1), "storage_unit": storage_unit, **kwargs, **given}
        if replay_mode == "lockstep":
            # Steps of several policies that belong together are not cut apart.
            self._options["storage_unit"] = StorageUnit.FRAGMENTS
        self.replay_mode = replay_mode
        self.replay_buffers: dict[str, ReplayBuffer] = {}
        self._num_added = 0

    def __len__(self) -> int:
        return sum(len(buffer) for buffer in self.replay_buffers.values())

    def _buffer(self, policy: str) -> ReplayBuffer:
        if policy not in self.replay_buffers:
            self.replay_buffers[policy] = self._made(**self._options)
        return self.replay_buffers[policy]

    def add(self, batch: SampleBatch | MultiAgentBatch, **kwargs: Any) -> None:
        """Adds a batch to the buffers of its policies."""
        whole = batch.as_multi_agent() if isinstance(batch, SampleBatch) else batch
        self._num_added += whole.count
        if self.replay_mode == "lockstep":
            self._buffer(_ALL_POLICIES).add(whole, **kwargs)
            return
        for policy, part in whole.policy_batches.items():
            self._buffer(policy).add(part, **kwargs)

    def sample(self, num_items: int | None = None, policy_id: str | None = None, **kwargs: Any) -> Any:
        """So many items of one policy, or of each.

        Raises:
            ValueError: if the policy is unknown.
        """
        if self.replay_mode == "lockstep":
            return self._buffer(_ALL_POLICIES).sample(num_items, **kwargs)
        if policy_id is not None:
            if policy_id not in self.replay_buffers:
                raise ValueError(f"there is no buffer of {policy_id!r}: {list(self.replay_buffers)}")
            return self.replay_buffers[policy_id].sample(num_items, **kwargs)
        found = {policy: buffer.sample(num_items, **kwargs) for policy, buffer in self.replay_buffers.items()}
        return MultiAgentBatch(found, sum(batch.count for batch in found.values()))

    def stats(self, debug: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """How much came and went, by policy."""
        said: dict[str, Any] = {"added_count": self._num_added}
        return said | {f"policy_{policy}": buffer.stats(debug) for policy, buffer in self.replay_buffers.items()}

    def get_state(self) -> dict[str, Any]:
        """All that its buffers have."""
        buffers = {policy: buffer.get_state() for policy, buffer in self.replay_buffers.items()}
        return {"added": self._num_added, "replay_buffers": buffers}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up what another one had."""
        self._num_added = state["added"]
        self.replay_buffers = {}
        for policy, own in state["replay_buffers"].items():
            self._buffer(policy).set_state(own)


def _class_of(kind: Any) -> Any:
    if isinstance(kind, str):
        import eagleray.rllib.utils.replay_buffers as known

        found = getattr(known, kind.rpartition(".")[2], None)
        if found is None:
            raise ValueError(f"{kind!r} is no replay buffer: {known.__all__}")
        return found
    return kind


__all__ = ["MultiAgentReplayBuffer"]
