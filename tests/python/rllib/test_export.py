"""Policies that were trained here, used without this package: numpy's side of it. torch's is in torch/test_export.py."""

import json

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib import export
from eagleray.rllib.algorithms._checkpoints import CheckpointError
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig

pytestmark = pytest.mark.usefixtures("shared_ray")


class Pictures(gym.Env):
    def __init__(self, config=None):
        self.observation_space = gym.spaces.Box(0, 255, (9, 8, 3), np.uint8)
        self.action_space = gym.spaces.Discrete(3)
        self.chance = np.random.default_rng(3)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.chance.integers(0, 256, (9, 8, 3), np.uint8), {}

    def step(self, action):
        self.steps += 1
        return self.chance.integers(0, 256, (9, 8, 3), np.uint8), float(action), self.steps >= 8, False, {}


class Knobs(Pictures):
    """The same, but numbers are chosen."""

    def __init__(self, config=None):
        super().__init__(config)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def step(self, action):
        return super().step(np.sum(action))


def small(config, env, **model):
    config.environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=2).debugging(seed=3)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
    return config.rl_module(model_config={"fcnet_hiddens": [16, 12], **model})


def ppo(env="CartPole-v1", **model):
    return small(PPOConfig(), env, **model).training(train_batch_size_per_learner=128, minibatch_size=64, num_epochs=1)


def dqn(env="CartPole-v1", dueling=True, **model):
    config = small(DQNConfig(), env, **model)
    return config.training(num_steps_sampled_before_learning_starts=0, dueling=dueling, hiddens=[8])


def sac(env="Pendulum-v1", **model):
    return small(SACConfig(), env, **model).training(num_steps_sampled_before_learning_starts=0)


FILTERS = {"conv_filters": [[4, 4, 2], [5, 2, 1]]}
POLICIES = {
    "PPO": lambda: ppo(),
    "PPO with relu, shared": lambda: ppo(fcnet_activation="relu", vf_share_layers=True),
    "PPO without layers": lambda: ppo(fcnet_hiddens=[]),
    "PPO of numbers": lambda: ppo("Pendulum-v1"),
    "PPO with deviations of their own": lambda: ppo("Pendulum-v1", free_log_std=True),
    "PPO of states": lambda: ppo("Taxi-v3"),
    "PPO at scale": lambda: ppo().env_runners(observation_filter="MeanStdFilter"),
    "PPO of pictures": lambda: ppo(Pictures, **FILTERS),
    "PPO of pictures, shared": lambda: ppo(Pictures, vf_share_layers=True, **FILTERS),
    "PPO of pictures, filters only": lambda: ppo(Pictures, vf_share_layers=True, **(FILTERS | {"fcnet_hiddens": []})),
    "PPO with a memory": lambda: ppo(use_lstm=True, lstm_cell_size=6),
    "DQN": lambda: dqn(),
    "DQN, not dueling": lambda: dqn(dueling=False),
    "DQN of pictures": lambda: dqn(Pictures, **FILTERS),
    "DQN of states": lambda: dqn("FrozenLake-v1"),
    "PPO with noise of the state": lambda: ppo("Pendulum-v1", use_sde=True),
    "PPO with noise of the state, without layers": lambda: ppo("Pendulum-v1", use_sde=True, fcnet_hiddens=[]),
    "SAC": lambda: sac(),
    "SAC with noise of the state": lambda: sac(use_sde=True),
    "SAC of pictures": lambda: sac(Knobs, **FILTERS),
    "SAC of pictures, with noise of the state": lambda: sac(Knobs, use_sde=True, **FILTERS),
}


def observations(algo, count=5):
    """Such as the environment has: pictures as bytes, states as whole numbers."""
    chance = np.random.default_rng(7)
    plan = algo._plans["default_policy"]
    if len(plan.observed.shape) == 3:
        return chance.integers(0, 256, (count, *plan.observed.shape), np.uint8)
    if algo.config.env in ("Taxi-v3", "FrozenLake-v1"):
        return chance.integers(0, plan.observed.size, count)
    return chance.normal(size=(count, plan.observed.size)).astype(np.float32)


def native_inputs(algo, observed):
    """What the native network says; with a memory from an empty one, and what it remembers then."""
    view = algo.get_policy()
    policy = algo.acting("default_policy")
    rows = view.rows(list(observed))
    size = policy.native.state_size
    if not size:
        return policy.inputs(rows), None
    policy.native.set_states(bytes(4 * size * len(rows)))
    inputs = policy.inputs(rows).copy()
    return inputs, np.frombuffer(policy.native.states(), np.float32).reshape(len(rows), size)


@pytest.mark.parametrize("name", POLICIES)
def test_numpy_s_function_says_what_the_native_network_says(name, tmp_path):
    algo = POLICIES[name]().build_algo()
    try:
        algo.train()
        observed = observations(algo)
        expected, memory = native_inputs(algo, observed)
        path = algo.get_policy().export_model(str(tmp_path / "model"))
        checkpoint = algo.save_to_path(str(tmp_path / "checkpoint"))
        for source in (algo, path, checkpoint):
            arrays, forward = export.to_numpy(source)
            assert arrays.keys() == algo.get_policy().get_weights().keys()
            found = forward(observed)
            if memory is not None:
                found, state = found
                assert np.allclose(state, memory, atol=1e-5)
                again, _ = forward(observed, state)
                assert not np.allclose(again, found), "the memory counts"
            assert np.ptp(expected) > 1e-3
            assert np.allclose(found, expected, atol=1e-5), np.abs(found - expected).max()
    finally:
        algo.stop()


def test_what_is_no_policy_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="holds no policy 'default_policy'"):
        export.to_numpy(tmp_path)
    algo = ppo().build_algo()
    try:
        with pytest.raises(KeyError, match="there is no policy 'other'"):
            export.to_numpy(algo, "other")
    finally:
        algo.stop()


def test_the_plan_says_which_networks_and_which_scale(tmp_path):
    algo = POLICIES["PPO at scale"]().build_algo()
    try:
        algo.train()
        algo.export_policy_model(str(tmp_path))
        plan = json.loads((tmp_path / "module.json").read_text())
        count, means, _ = algo.learners["default_policy"]._filter.observed()
        assert count > 100
        assert plan["kind"] == "actor_critic"
        assert plan["network"]["hiddens"] == [16, 12]
        assert plan["observation_filter"]["means"] == means
    finally:
        algo.stop()
