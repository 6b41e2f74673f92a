"""Buffers that a program fills and draws from, also one of its own and one in an actor."""

import ray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import SampleBatch
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, StorageUnit

ray.init(num_cpus=2)


class Newest(ReplayBuffer):
    """Draws what came last."""

    def sample(self, num_items, **kwargs):
        return self._encode_sample(list(range(len(self) - num_items, len(self))))


buffer = ReplayBuffer(capacity=10, storage_unit=StorageUnit.FRAGMENTS)
buffer.add(SampleBatch({"a": [1], "b": [2, 3, 4]}))
assert list(buffer.sample(1)["b"]) == [2, 3, 4]
newest = Newest(capacity=100)
newest.add(SampleBatch({"a": list(range(20))}))
assert list(newest.sample(3)["a"]) == [17, 18, 19]
weighted = PrioritizedReplayBuffer(capacity=100, alpha=0.6)
weighted.add(SampleBatch({"a": [1, 2, 3]}))
drawn = weighted.sample(5, beta=0.4)
weighted.update_priorities(drawn["batch_indexes"], [0.5] * 5)
assert len(drawn["weights"]) == 5

shared = ray.remote(ReplayBuffer).remote(capacity=50)
ray.get([shared.add.remote(SampleBatch({"a": [number]})) for number in range(5)])
assert len(ray.get(shared.sample.remote(4))) == 4

episodes = EpisodeReplayBuffer(capacity=100)
for _ in range(3):
    episodes.add(
        SingleAgentEpisode(
            observations=[0, 1, 2, 3], actions=[0, 1, 2], rewards=[1, 1, 1], terminated=True, len_lookback_buffer=0
        )
    )
assert episodes.get_num_timesteps() == 9
assert episodes.sample(batch_size_B=2, batch_length_T=4)["obs"].shape == (2, 4)
assert len(episodes.sample(5, n_step=2, sample_episodes=True)) == 5
print("ok")
