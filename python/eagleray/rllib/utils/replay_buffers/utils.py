"""What programs do with buffers."""

from __future__ import annotations

from typing import Any

from eagleray.rllib.policy.sample_batch import MultiAgentBatch, concat_samples


def update_priorities_in_replay_buffer(
    replay_buffer: Any, config: Any, train_batch: Any, train_results: dict[str, Any]
) -> None:
    """Tells a buffer with priorities how wrong the predictions were, by `td_error` of each policy's results."""
    if not hasattr(replay_buffer, "update_priorities"):
        return
    batches = train_batch.policy_batches if isinstance(train_batch, MultiAgentBatch) else {}
    found = {}
    for policy, said in train_results.items():
        errors = said.get("td_error", said.get("learner_stats", {}).get("td_error"))
        if errors is not None and policy in batches:
            found[policy] = (batches[policy]["batch_indexes"], errors)
    if found:
        replay_buffer.update_priorities(found)


def sample_min_n_steps_from_buffer(replay_buffer: Any, min_steps: int, count_by_agent_steps: bool) -> Any:  # noqa: FBT001
    """One batch of at least so many steps, drawn item by item; None if the buffer is empty."""
    found: list[Any] = []
    steps = 0
    while steps < min_steps:
        if not len(replay_buffer):
            return None
        batch = replay_buffer.sample(1)
        found.append(batch)
        steps += batch.agent_steps() if count_by_agent_steps else batch.env_steps()
    return concat_samples(found)


__all__ = ["sample_min_n_steps_from_buffer", "update_priorities_in_replay_buffer"]
