"""Training goes on from a checkpoint as if nothing had been written: the same weights, bit for bit, and the same episodes."""

import logging

import numpy as np
import pytest

import eagleray as ray
from eagleray.rllib._engine._moments import observed_of
from eagleray.rllib.algorithms.a2c import A2CConfig
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.es import ESConfig
from eagleray.rllib.algorithms.impala import IMPALAConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig

pytestmark = pytest.mark.usefixtures("shared_ray")

REPLAYED = {"num_steps_sampled_before_learning_starts": 64, "train_batch_size": 16, "store_buffer_in_checkpoints": True}


def short(config, env="CartPole-v1", **model):
    # Two environments each: their episodes are not cut off where samples are.
    config.environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=128)
    return config.rl_module(model_config={"fcnet_hiddens": [16], **model}).debugging(seed=3)


def ppo(env="CartPole-v1", **model):
    return short(PPOConfig(), env, **model).training(
        train_batch_size_per_learner=128, minibatch_size=32, num_epochs=2, lr=1e-2
    )


CASES = {
    "PPO": ppo,
    "PPO with a memory": lambda: ppo(use_lstm=True, lstm_cell_size=8, max_seq_len=5),
    "PPO with filters": lambda: ppo("Pendulum-v1").env_runners(
        observation_filter="MeanStdFilter", reward_filter="MeanStdFilter"
    ),
    "PPO with noise by state": lambda: ppo("Pendulum-v1", use_sde=True, sde_sample_freq=7),
    "A2C": lambda: short(A2CConfig()),
    "IMPALA": lambda: short(IMPALAConfig()).training(train_batch_size=100).env_runners(rollout_fragment_length=25),
    "DQN": lambda: short(DQNConfig()).training(
        n_step=3, replay_buffer_config={"type": "PrioritizedReplayBuffer", "capacity": 150}, **REPLAYED
    ),
    "SAC": lambda: short(SACConfig(), "Pendulum-v1").training(n_step=2, **REPLAYED),
    "ES": lambda: short(ESConfig()).training(episodes_per_batch=8, train_batch_size=64),
}


def found(algorithm, iterations):
    """What came of so many more iterations."""
    results = [algorithm.train() for _ in range(iterations)]
    told = ("timesteps_total", "episodes_total", "episode_reward_mean", "training_iteration")
    return [[one[name] for name in told] for one in results], algorithm.get_policy().get_weights()


def assert_same(one, other):
    # As text: two that are no number are the same here.
    assert str(one[0]) == str(other[0])
    assert one[1].keys() == other[1].keys()
    assert all(np.array_equal(one[1][name], other[1][name]) for name in one[1])


@pytest.fixture
def kept():
    """Algorithms that are stopped when the test is over."""
    algorithms = []

    def keep(algorithm):
        algorithms.append(algorithm)
        return algorithm

    yield keep
    for algorithm in algorithms:
        algorithm.stop()


# Where a runner was an actor its chance and its episodes began anew, and of SAC's replay nothing was ever written.
# proves: Y2c
@pytest.mark.parametrize("runners", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_training_goes_on_bit_for_bit(name, runners, tmp_path, kept):
    one = kept(CASES[name]().env_runners(num_env_runners=runners).build_algo())
    found(one, 2)
    path = one.save_to_path(str(tmp_path))
    expected = found(one, 2)
    one.stop()
    again = kept(Algorithm.from_checkpoint(path))
    assert_same(found(again, 2), expected)
    # What was done in the meantime counts no more, nor does a sample that was on its way.
    again.restore(path)
    assert_same(found(again, 2), expected)


@pytest.mark.parametrize("name", ["PPO", "IMPALA"])
def test_saving_changes_nothing(name, tmp_path, kept):
    one, other = (kept(CASES[name]().env_runners(num_env_runners=1).build_algo()) for _ in range(2))
    found(one, 1)
    one.save_to_path(str(tmp_path))
    found(other, 1)
    assert_same(found(one, 1), found(other, 1))


# Steps that wait in the replay for what follows are known by the seed of their runner, and ES begins its episodes by it.
@pytest.mark.parametrize("name", ["PPO", "DQN", "ES"])
def test_training_goes_on_bit_for_bit_without_a_seed_as_well(name, tmp_path, kept):
    one = kept(CASES[name]().debugging(seed=None).build_algo())
    found(one, 2)
    path = one.save_to_path(str(tmp_path))
    expected = found(one, 2)
    assert_same(found(kept(Algorithm.from_checkpoint(path)), 2), expected)


def test_a_state_in_memory_is_that_of_actors_too(kept):
    one = kept(CASES["IMPALA"]().env_runners(num_env_runners=1).build_algo())
    found(one, 1)
    state = one.get_state()
    assert set(state["env_runner"]) == {"1/simulator", "1/collector", "1/about", "1/pending"}
    expected = found(one, 2)
    one.set_state(state)
    assert_same(found(one, 2), expected)


def test_all_of_several_actors_go_on_with_their_episodes(kept, tmp_path):
    one = kept(ppo().env_runners(num_env_runners=2).build_algo())
    found(one, 1)
    path = one.save_to_path(str(tmp_path))
    expected = one.env_runner_group.foreach_env_runner("get_state", local_env_runner=False)
    assert expected[0] != expected[1]
    one.stop()
    again = kept(Algorithm.from_checkpoint(path))
    assert again.env_runner_group.foreach_env_runner("get_state", local_env_runner=False) == expected


@pytest.mark.parametrize("runners", [0, 1])
def test_other_environments_than_were_saved_begin_anew_and_say_so(runners, kept, tmp_path, caplog):
    one = kept(ppo().env_runners(num_env_runners=runners).build_algo())
    found(one, 1)
    weights = one.get_policy().get_weights()
    path = one.save_to_path(str(tmp_path))
    one.stop()
    wider = kept(ppo().env_runners(num_env_runners=runners, num_envs_per_env_runner=3).build_algo())
    with caplog.at_level(logging.WARNING, "eagleray.rllib"):
        wider.restore(path)
    assert f"runner {runners} does not go on with the episodes of the checkpoint" in caplog.text
    assert "2 were saved, 3 are here" in caplog.text
    assert all(np.array_equal(weights[name], array) for name, array in wider.get_policy().get_weights().items())
    assert wider.train()["training_iteration"] == 2
    wider.stop()
    # Those of actors are not those of a runner in this process, and the other way round.
    moved = kept(ppo().env_runners(num_env_runners=1 - runners).build_algo())
    moved.restore(path)
    assert moved.train()["training_iteration"] == 2


@pytest.mark.parametrize("runners", [0, 1])
def test_filters_that_the_checkpoint_has_not_begin_with_what_comes(runners, kept, tmp_path, caplog):
    one = kept(ppo().env_runners(num_env_runners=runners).build_algo())
    path = one.save_to_path(str(tmp_path))
    one.stop()
    filtered = ppo().env_runners(num_env_runners=runners, observation_filter="MeanStdFilter")
    other = kept(filtered.build_algo())
    with caplog.at_level(logging.WARNING, "eagleray.rllib"):
        other.restore(path)
    assert "the filters were ['NoFilter', 'NoFilter'], and are ['MeanStdFilter', 'NoFilter'] here" in caplog.text
    other.train()
    seen = observed_of(other.learners["default_policy"]._filter.moments())
    assert seen.count > 128


def test_a_runner_that_is_gone_keeps_nobody_from_saving(kept, tmp_path, caplog):
    one = kept(ppo().env_runners(num_env_runners=1).fault_tolerance(restart_failed_env_runners=True).build_algo())
    found(one, 1)
    ray.kill(one.env_runner_group.remote_workers()[0])
    with caplog.at_level(logging.WARNING, "eagleray.rllib"):
        path = one.save_to_path(str(tmp_path))
    assert "what runner 1 does is not in this checkpoint" in caplog.text
    one.stop()
    again = kept(Algorithm.from_checkpoint(path))
    assert again.train()["training_iteration"] == 2
