"""The engine that is built in, through the names that users call."""

import math

import numpy as np
import pytest

from eagleray.rllib.algorithms.a2c import A2CConfig
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.es import ESConfig
from eagleray.rllib.algorithms.impala import IMPALAConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig

pytestmark = pytest.mark.usefixtures("shared_ray")


def ppo(lr=1e-3, **model):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    training = {
        "lr": lr,
        "train_batch_size_per_learner": 2048,
        "minibatch_size": 128,
        "num_epochs": 10,
        "lambda_": 0.95,
    }
    config.training(**training, vf_clip_param=1000.0)
    return config.rl_module(model_config={"fcnet_hiddens": [32, 32], **model}).debugging(seed=1)


def small(config):
    config.env_runners(num_env_runners=0).reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
    return config.debugging(seed=3)


SMALL = {
    "PPO": lambda: ppo().training(train_batch_size_per_learner=256),
    "PPO with a memory": lambda: ppo(use_lstm=True, lstm_cell_size=16).training(train_batch_size_per_learner=256),
    "A2C": lambda: small(A2CConfig().environment("Acrobot-v1")),
    "IMPALA": lambda: small(IMPALAConfig().environment("CartPole-v1")),
    "DQN": lambda: small(DQNConfig().environment("FrozenLake-v1")).training(num_steps_sampled_before_learning_starts=0),
    "SAC": lambda: small(SACConfig().environment("Pendulum-v1")).training(num_steps_sampled_before_learning_starts=0),
    "ES": lambda: small(ESConfig().environment("CartPole-v1")).training(episodes_per_batch=8, train_batch_size=64),
}


@pytest.mark.parametrize("name", SMALL)
def test_each_algorithm_learns_from_a_native_environment_and_goes_on_from_its_checkpoint(name, tmp_path):
    algo = SMALL[name]().build_algo()
    try:
        before = algo.get_policy().get_weights()
        result = algo.train()
        assert result["num_env_steps_sampled_lifetime"] > 0
        assert all(math.isfinite(value) for value in result["learners"]["default_policy"].values())
        after = algo.get_policy().get_weights()
        assert any(np.any(before[tensor] != after[tensor]) for tensor in before)
        path = algo.save_to_path(str(tmp_path))
    finally:
        algo.stop()
    again = Algorithm.from_checkpoint(path)
    try:
        restored = again.get_policy().get_weights()
        assert all(np.array_equal(after[tensor], restored[tensor]) for tensor in after)
        assert again.train()["training_iteration"] == result["training_iteration"] + 1
    finally:
        again.stop()


@pytest.mark.parametrize(("lr", "learns"), [(1e-3, True), (0.0, False)])
def test_ppo_balances_the_pole_unless_its_steps_have_no_size(lr, learns):
    algo = ppo(lr).build_algo()
    try:
        best = max(algo.train()["env_runners"]["episode_return_mean"] for _ in range(20))
    finally:
        algo.stop()
    assert best > 200 if learns else best < 60, best


@pytest.mark.parametrize(("size", "alike"), [(64, False), (256, True)])
def test_advantages_are_scaled_among_the_rows_of_the_batch_or_of_each_minibatch(size, alike):
    found = []
    for scaling in ("batch", "minibatch"):
        config = ppo().training(train_batch_size_per_learner=256, minibatch_size=size, advantage_scaling=scaling)
        algo = config.build_algo()
        try:
            algo.train()
            found.append(algo.get_policy().get_weights()["pi.0.weight"])
        finally:
            algo.stop()
    assert np.allclose(*found, atol=1e-6) == alike


def test_training_goes_on_bit_for_bit(tmp_path):
    algo = ppo().build_algo()
    try:
        algo.train()
        path = algo.save_to_path(str(tmp_path))
        whole = [algo.train()["env_runners"]["episode_return_mean"] for _ in range(3)]
        weights = algo.get_policy().get_weights()
    finally:
        algo.stop()
    again = Algorithm.from_checkpoint(path)
    try:
        assert [again.train()["env_runners"]["episode_return_mean"] for _ in range(3)] == whole
        other = again.get_policy().get_weights()
        assert all(np.array_equal(weights[name], other[name]) for name in weights)
    finally:
        again.stop()


def test_observations_are_brought_to_scale_by_what_all_runners_have_seen(tmp_path):
    config = ppo().env_runners(num_env_runners=2, num_envs_per_env_runner=2, observation_filter="MeanStdFilter")
    algo = config.training(train_batch_size_per_learner=512).build_algo()
    try:
        for _ in range(2):
            algo.train()
        learner = algo.learners["default_policy"]
        count, means, deviations = learner._filter.observed()
        # Of each step what is seen behind it, and what each of the four environments began with.
        assert count >= 1024
        assert all(0.01 < value < 2.0 for value in deviations), deviations
        observed = np.array([0.3, -0.2, 0.1, 0.4], np.float32)
        action = algo.compute_single_action(observed, explore=False)
        inputs = algo.get_policy().get_weights()
        path = algo.save_to_path(str(tmp_path))
    finally:
        algo.stop()
    again = Algorithm.from_checkpoint(path)
    try:
        assert again.learners["default_policy"]._filter.observed() == (count, means, deviations)
        assert again.compute_single_action(observed, explore=False) == action
        assert all(np.array_equal(inputs[name], again.get_policy().get_weights()[name]) for name in inputs)
    finally:
        again.stop()
