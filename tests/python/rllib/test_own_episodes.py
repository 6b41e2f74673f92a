"""Episodes, batches and replay buffers that programs make and fill themselves."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from eagleray.rllib.env._episode import Episode
from eagleray.rllib.env.single_agent_episode import SingleAgentEpisode
from eagleray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch, concat_samples
from eagleray.rllib.utils.replay_buffers import (
    EpisodeReplayBuffer,
    FifoReplayBuffer,
    MultiAgentPrioritizedReplayBuffer,
    MultiAgentReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReservoirReplayBuffer,
    StorageUnit,
)
from eagleray.rllib.utils.replay_buffers.utils import (
    sample_min_n_steps_from_buffer,
    update_priorities_in_replay_buffer,
)


def counted(steps, *, id_=None, start=0, done=True):
    """An episode whose observation is its step, whose action is that negative, and whose reward is a tenth of it."""
    episode = SingleAgentEpisode(id_, t_started=start)
    episode.add_env_reset(start, {"at": start})
    for at in range(start + 1, start + steps + 1):
        is_last = done and at == start + steps
        outputs = {"logp": at / 100}
        episode.add_env_step(at, -at, at / 10, {"at": at}, terminated=is_last, extra_model_outputs=outputs)
    return episode


def test_an_episode_is_filled_by_an_environment():
    env = gym.make("CartPole-v1")
    episode = SingleAgentEpisode(observation_space=env.observation_space, action_space=env.action_space)
    observation, infos = env.reset(seed=1)
    episode.add_env_reset(observation, infos)
    while not episode.is_done:
        action = env.action_space.sample()
        observation, reward, terminated, truncated, infos = env.step(action)
        episode.add_env_step(observation, action, reward, infos, terminated=terminated, truncated=truncated)
    steps = len(episode)
    assert (episode.get_return(), episode.env_steps()) == (float(steps), steps)
    assert episode.get_duration_s() > 0
    assert len(episode.get_observations()) == steps + 1
    assert not episode.is_numpy
    episode.to_numpy()
    assert episode.is_numpy
    assert episode.get_observations().shape == (steps + 1, 4)
    assert episode.get_actions(slice(-2, None)).shape == (2,)
    with pytest.raises(AssertionError, match="this episode is over"):
        episode.add_env_step(observation, action, reward)


@pytest.mark.parametrize("as_arrays", [False, True])
def test_places_in_an_episode_count_from_its_beginning_or_its_end(as_arrays):
    episode = counted(5)
    if as_arrays:
        episode.to_numpy()
    assert list(episode.get_observations()) == [0, 1, 2, 3, 4, 5]
    assert (episode.get_observations(-1), episode.get_actions(0), episode.get_rewards(-2)) == (5, -1, 0.4)
    assert list(episode.get_rewards([0, -1])) == [0.1, 0.5]
    assert list(episode.get_actions(slice(1, 3))) == [-2, -3]
    assert episode.get_infos(2) == {"at": 2}
    assert list(episode.get_extra_model_outputs("logp", slice(0, 2))) == [0.01, 0.02]
    assert list(episode.get_observations(slice(4, 8), fill=9)) == [4, 5, 9, 9]
    with pytest.raises(IndexError, match="no item at 7"):
        episode.get_observations(7)


def test_what_is_given_at_birth_is_looked_back_at_unless_it_is_said_to_belong():
    data = {"observations": [0, 1, 2, 3], "actions": [1, 2, 3], "rewards": [0.1, 0.2, 0.3]}
    looking_back = SingleAgentEpisode(**data)
    assert (len(looking_back), looking_back.get_observations()) == (0, [3])
    assert looking_back.get_rewards(-1, neg_index_as_lookback=True) == 0.3
    assert looking_back.get_rewards([-2, -1]) == [0.2, 0.3]
    own = SingleAgentEpisode(**data, len_lookback_buffer=0)
    assert (len(own), own.t, own.get_return()) == (3, 3, pytest.approx(0.6))
    part = SingleAgentEpisode(**data, len_lookback_buffer=1, t_started=5)
    assert (len(part), part.t_started, part.t, part.get_actions()) == (2, 5, 7, [2, 3])
    with pytest.raises(AssertionError, match="there are 3 rewards, and 2 actions"):
        SingleAgentEpisode(observations=[0, 1, 2, 3], actions=[1, 2], rewards=[1, 2, 3], len_lookback_buffer=0)


@pytest.mark.parametrize("as_arrays", [False, True])
def test_an_episode_is_cut_sliced_and_joined(as_arrays):
    whole = counted(5)
    if as_arrays:
        whole.to_numpy()
    first, last = whole[:2], whole[-2:]
    assert (first.observations, first.actions, first.is_done) == ([0, 1, 2], [-1, -2], False)
    assert (last.observations, last.rewards, last.is_terminated) == ([3, 4, 5], [0.4, 0.5], True)
    assert (last.t_started, last.t) == (3, 5)
    assert last.get_observations(-1, neg_index_as_lookback=True) == 2
    assert whole.slice(slice(2, 4), len_lookback_buffer=0).observations.lookback == 0

    going = counted(3, id_="x", done=False)
    after = going.cut(len_lookback_buffer=2)
    assert (after.id_, after.t_started, len(after), after.get_observations()) == ("x", 3, 0, [3])
    assert after.get_actions([-2, -1]) == [-2, -3]
    after.add_env_step(4, -4, 0.4, extra_model_outputs={"logp": 0.04}, truncated=True)
    going.concat_episode(after)
    assert (going.observations, going.is_truncated, going.t) == ([0, 1, 2, 3, 4], True, 4)
    with pytest.raises(AssertionError, match="not the part that comes behind"):
        going.concat_episode(after)


def test_what_an_episode_has_is_changed_and_given_as_columns():
    episode = counted(3)
    episode.set_rewards(new_data=9.0, at_indices=-1)
    episode.set_observations(new_data=[7, 8], at_indices=[0, 1])
    episode.set_extra_model_outputs(key="value", new_data=[1, 2, 3])
    batch = episode.get_sample_batch()
    assert (len(batch), batch.count) == (3, 3)
    assert list(batch[SampleBatch.OBS]) == [7, 8, 2]
    assert list(batch[SampleBatch.NEXT_OBS]) == [8, 2, 3]
    assert list(batch[SampleBatch.REWARDS]) == [0.1, 0.2, 9.0]
    assert list(batch[SampleBatch.TERMINATEDS]) == [False, False, True]
    assert list(batch["value"]) == [1, 2, 3]
    again = SingleAgentEpisode.from_state(episode.get_state())
    assert (again.id_, again.rewards) == (episode.id_, [0.1, 0.2, 9.0])
    one_hot = SingleAgentEpisode(observations=[0, 2], actions=[0], rewards=[1], observation_space=Discrete(3))
    assert one_hot.get_observations(-1, one_hot_discrete=True).tolist() == [0, 0, 1]


def test_nested_observations_become_nested_arrays():
    episode = SingleAgentEpisode()
    episode.add_env_reset({"a": np.zeros(2), "b": (1, 2.0)})
    episode.add_env_step({"a": np.ones(2), "b": (3, 4.0)}, 0, 1.0)
    episode.to_numpy()
    assert episode.get_observations()["a"].shape == (2, 2)
    assert episode.get_observations(-1)["b"] == (3, 4.0)
    after = episode.cut()
    assert after.get_observations(0)["b"] == (3, 4.0)


def test_what_callbacks_are_given_counts_as_an_episode_of_one_agent():
    assert isinstance(Episode(), SingleAgentEpisode)
    assert not isinstance(object(), SingleAgentEpisode)


def test_batches_are_cut_joined_and_shuffled_by_rows():
    batch = SampleBatch({"obs": [[1.0], [2.0], [3.0], [4.0]], "eps_id": [0, 0, 1, 1], "infos": [{}, {"a": 1}, {}, {}]})
    assert (len(batch), batch.env_steps()) == (4, 4)
    assert [len(part) for part in batch.split_by_episode()] == [2, 2]
    assert batch[1:3]["obs"].tolist() == [[2.0], [3.0]]
    assert next(iter(batch.rows()))["eps_id"] == 0
    assert [len(part) for part in batch.timeslices(3)] == [3, 1]
    assert sorted(batch.copy().shuffle()["obs"].ravel()) == [1, 2, 3, 4]
    joined = concat_samples([batch, batch.as_multi_agent()])
    assert isinstance(joined, MultiAgentBatch)
    assert (joined.agent_steps(), joined["default_policy"]["infos"][5]) == (8, {"a": 1})


def steps(values, **more):
    return SampleBatch({"a": list(values), **more})


def test_a_buffer_keeps_the_newest_and_draws_from_them():
    buffer = ReplayBuffer(capacity=3)
    with pytest.raises(ValueError, match="Trying to sample from an empty buffer"):
        buffer.sample(1)
    buffer.add(steps([1, 2]))
    assert len(buffer) == 2
    buffer.add(steps([3, 4]))
    assert len(buffer) == 3
    drawn = buffer.sample(100)
    assert set(drawn["a"]) == {2, 3, 4}
    assert buffer.stats()["added_count"] == 4
    other = ReplayBuffer(capacity=3)
    other.set_state(buffer.get_state())
    other.add(steps([5]))
    assert (set(other.sample(100)["a"]), set(buffer.sample(100)["a"])) == ({3, 4, 5}, {2, 3, 4})
    with pytest.raises(ValueError, match="storage_unit must be one of"):
        ReplayBuffer(storage_unit="weeks")


def test_a_buffer_keeps_fragments_episodes_or_sequences():
    fragments = ReplayBuffer(10, StorageUnit.FRAGMENTS)
    fragments.add(SampleBatch({"a": [1], "b": [2, 3, 4]}))
    assert fragments.sample(1)["b"].tolist() == [2, 3, 4]
    episodes = ReplayBuffer(10, "episodes")
    ends, ids = [False, True, False, False], [0, 0, 1, 1]
    episodes.add(steps([1, 2, 3, 4], t=[0, 1, 0, 1], terminateds=ends, eps_id=ids))
    assert len(episodes) == 1
    assert episodes.sample(1)["a"].tolist() == [1, 2]
    sequences = ReplayBuffer(10, "sequences")
    sequences.add(steps([1, 2, 3], seq_lens=[1, 2]))
    assert len(sequences) == 2


def test_a_buffer_with_priorities_draws_by_them_and_makes_up_for_it():
    np.random.seed(1)
    buffer = PrioritizedReplayBuffer(capacity=10, alpha=1.0)
    buffer.add(steps([0, 1, 2, 3]))
    drawn = buffer.sample(8, beta=0.5)
    assert set(drawn["weights"]) == {1.0}
    buffer.update_priorities([0, 1, 2, 3], [97.0, 1.0, 1.0, 1.0])
    drawn = buffer.sample(1000, beta=1.0)
    share = float(np.mean(drawn["a"] == 0))
    assert 0.9 < share < 1.0
    assert drawn["batch_indexes"].tolist() == drawn["a"].tolist()
    assert drawn["weights"][drawn["a"] == 0][0] == pytest.approx(1 / 97)
    with pytest.raises(ValueError, match="a priority is greater than 0"):
        buffer.update_priorities([0], [0.0])


def test_a_reservoir_keeps_old_and_new_alike_and_a_queue_gives_each_once():
    np.random.seed(3)
    reservoir = ReservoirReplayBuffer(capacity=100)
    reservoir.add(steps(range(1000)))
    kept = [int(item["a"][0]) for item in reservoir._storage]
    assert len(kept) == 100
    assert 350 < np.mean(kept) < 650
    queue = FifoReplayBuffer()
    queue.add(steps([1, 2]))
    queue.add(steps([3]))
    assert [queue.sample()["a"].tolist(), queue.sample()["a"].tolist(), len(queue.sample())] == [[1, 2], [3], 0]


def test_buffers_of_several_policies_are_apart_or_in_lockstep():
    batch = MultiAgentBatch({"p": steps([1, 2]), "q": steps([3, 4])}, 2)
    buffer = MultiAgentReplayBuffer(capacity=10)
    buffer.add(batch)
    buffer.add(steps([5]))
    assert set(buffer.replay_buffers) == {"p", "q", "default_policy"}
    assert set(buffer.sample(50)["q"]["a"]) == {3, 4}
    assert set(buffer.sample(50, policy_id="p")["a"]) == {1, 2}
    with pytest.raises(ValueError, match="no buffer of 'r'"):
        buffer.sample(1, policy_id="r")
    together = MultiAgentReplayBuffer(capacity=10, replay_mode="lockstep")
    together.add(batch)
    assert together.sample(1)["q"]["a"].tolist() == [3, 4]
    other = MultiAgentReplayBuffer(capacity=10)
    other.set_state(buffer.get_state())
    assert len(other) == len(buffer) == 5
    assert sample_min_n_steps_from_buffer(buffer, 7, count_by_agent_steps=True).agent_steps() >= 7


def test_priorities_of_several_policies_follow_from_their_errors():
    np.random.seed(5)
    buffer = MultiAgentPrioritizedReplayBuffer(capacity=10, prioritized_replay_alpha=1.0)
    buffer.add(steps([0, 1]))
    drawn = buffer.sample(20)
    errors = np.where(drawn["default_policy"]["a"] == 1, -50.0, 0.0)
    update_priorities_in_replay_buffer(buffer, None, drawn, {"default_policy": {"td_error": errors}})
    assert np.mean(buffer.sample(200)["default_policy"]["a"]) > 0.95


def test_a_buffer_of_episodes_joins_parts_and_lets_the_oldest_go():
    buffer = EpisodeReplayBuffer(capacity=10)
    first = counted(4, id_="x", done=False)
    buffer.add(first)
    after = first.cut()
    after.add_env_step(5, -5, 0.5, extra_model_outputs={"logp": 0.05}, terminated=True)
    buffer.add([after, counted(3)])
    assert (buffer.get_num_episodes(), buffer.get_num_timesteps()) == (2, 8)
    assert buffer.episodes[0].observations == [0, 1, 2, 3, 4, 5]
    assert len(first) == 4
    buffer.add(counted(4))
    assert (buffer.get_num_episodes(), len(buffer), buffer.get_added_timesteps()) == (2, 7, 12)


def test_a_buffer_of_episodes_gives_sequences_and_steps():
    buffer = EpisodeReplayBuffer(capacity=100)
    buffer.add([counted(6), counted(3)])
    columns = buffer.sample(batch_size_B=4, batch_length_T=5)
    assert columns["obs"].shape == columns["rewards"].shape == columns["is_first"].shape == (4, 5)
    for observed, firsts, actions in zip(columns["obs"], columns["is_first"], columns["actions"], strict=True):
        assert (observed + 1 == -actions).all()
        assert all(observed[at] == observed[at - 1] + 1 or firsts[at] for at in range(1, 5))
    drawn = buffer.sample(30, n_step=3, gamma=0.5, sample_episodes=True)
    assert len(drawn) == 30
    for one in drawn:
        at, to = one.get_observations()
        count = one.get_extra_model_outputs("n_step", 0)
        assert (len(one), to - at) == (1, count)
        rewards = [(at + number) / 10 * 0.5 ** (number - 1) for number in range(1, count + 1)]
        assert one.get_rewards(0) == pytest.approx(sum(rewards))
        assert one.is_terminated == (to in (6, 3) and one.t_started + count == to and one.is_done)
    other = EpisodeReplayBuffer()
    other.set_state(buffer.get_state())
    assert other.get_num_timesteps() == 9


def test_a_buffer_of_episodes_draws_steps_by_priorities():
    buffer = PrioritizedEpisodeReplayBuffer(capacity=100, alpha=1.0)
    buffer.rng = np.random.default_rng(1)
    buffer.add([counted(5), counted(5)])
    drawn = buffer.sample(100, beta=1.0)
    assert {one.get_extra_model_outputs("weights", 0) for one in drawn} == {1.0}
    buffer.update_priorities([1000.0 if one.get_observations(0) == 2 else 0.001 for one in drawn])
    again = buffer.sample(50)
    assert {one.get_observations(0) for one in again} == {2}
    with pytest.raises(ValueError, match="50 steps were drawn, and 1 priorities"):
        buffer.update_priorities([1.0])
