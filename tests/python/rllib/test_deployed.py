"""Policies without the algorithm that trained them, and what else programs ask about weights and states."""

from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from eagleray.rllib.algorithms import _checkpoints
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.dqn import DQN, DQNConfig
from eagleray.rllib.algorithms.ppo import PPO, PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig
from eagleray.rllib.core import DEFAULT_MODULE_ID
from eagleray.rllib.core.rl_module import RLModule
from eagleray.rllib.policy.policy import Policy

pytestmark = pytest.mark.usefixtures("shared_ray")

MODULES = "learner_group/learner/rl_module"


class Line:
    """Ten steps on a line; actions have a shape and bounds of their own."""

    observation_space = Box(-1.0, 1.0, (3,), np.float32)
    action_space = Box(np.array([0.0, -5.0]), np.array([2.0, 5.0]), (2,), np.float64)

    def __init__(self, config=None):
        self.at = 0

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.at += 1
        return np.full(3, self.at / 10, np.float32), 1.0, self.at >= 10, False, {}


class Shifted(Line):
    action_space = Discrete(3, start=-1)


def ppo(env="CartPole-v1", **model):
    config = PPOConfig().environment(env).env_runners(num_env_runners=0).debugging(seed=1)
    return config.training(train_batch_size=100, minibatch_size=50, num_epochs=1, model={"fcnet_hiddens": [8], **model})


def small(kind, env):
    config = kind().environment(env).env_runners(num_env_runners=0).debugging(seed=1)
    return config.training(model={"fcnet_hiddens": [8]})


POLICIES = {
    "PPO": ppo,
    "with a memory": lambda: ppo(use_lstm=True, lstm_cell_size=8),
    "with a filter": lambda: ppo().env_runners(observation_filter="MeanStdFilter"),
    "numbers": lambda: ppo(Line),
    "a shifted choice": lambda: ppo(Shifted),
    "DQN": lambda: small(DQNConfig, "CartPole-v1"),
    "SAC": lambda: small(SACConfig, "Pendulum-v1"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_acts_without_its_algorithm_as_it_did_with_it(name, tmp_path):
    algo = POLICIES[name]().build_algo()
    algo.train()
    view, module = algo.get_policy(), algo.get_module()
    path = Path(algo.save_to_path(tmp_path / "checkpoint"))
    exported = algo.export_policy_model(str(tmp_path / "exported"))
    seen = np.random.default_rng(0).uniform(-1, 1, (4, view._spaces.observed.size)).astype(np.float32)
    expected = [view.compute_single_action(one, explore=False)[0] for one in seen]
    outputs = module.forward_inference({"obs": seen})["action_dist_inputs"]
    algo.stop()
    folder = path / MODULES / DEFAULT_MODULE_ID
    for policy in (
        Policy.from_checkpoint(str(path))["default_policy"],
        Policy.from_checkpoint(folder),
        Policy.from_checkpoint(exported),
    ):
        found = [policy.compute_single_action(one, explore=False)[0] for one in seen]
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    for made in (RLModule.from_checkpoint(folder), RLModule.from_checkpoint(path / MODULES)[DEFAULT_MODULE_ID]):
        assert isinstance(made, RLModule)
        assert np.array_equal(made.forward_inference({"obs": seen})["action_dist_inputs"], outputs)
        zeros = {key: np.zeros_like(array) for key, array in made.get_state().items()}
        made.set_state(zeros)
        assert not np.array_equal(made.forward_inference({"obs": seen})["action_dist_inputs"], outputs)


def test_other_weights_leave_the_scale_as_it_is(tmp_path):
    algo = POLICIES["with a filter"]().build_algo()
    algo.train()
    policy = Policy.from_checkpoint(algo.export_policy_model(str(tmp_path / "one")))
    algo.stop()
    seen = np.ones((1, 4), np.float32)
    expected = policy.inputs(seen)
    policy.set_weights(policy.get_weights())
    again = Policy.from_checkpoint(policy.export_model(str(tmp_path / "two")))
    assert np.array_equal(policy.inputs(seen), expected)
    assert np.array_equal(again.inputs(seen), expected)


def test_what_holds_no_policy_is_refused_by_name(tmp_path):
    with pytest.raises(_checkpoints.CheckpointError, match="holds no policy"):
        Policy.from_checkpoint(tmp_path)
    algo = ppo().build_algo()
    path = Path(algo.save_to_path(tmp_path / "checkpoint"))
    algo.stop()
    with pytest.raises(KeyError, match="no policy 'other'"):
        Policy.from_checkpoint(path, policy_ids=["other"])
    with pytest.raises(_checkpoints.CheckpointError, match="is of PPO, not of DQN"):
        DQN.from_checkpoint(path)
    for kind in (PPO, Algorithm):
        kind.from_checkpoint(path).stop()
    (path / MODULES / DEFAULT_MODULE_ID / "class_and_ctor_args.pkl").unlink()
    with pytest.raises(_checkpoints.CheckpointError, match="older versions"):
        RLModule.from_checkpoint(path / MODULES / DEFAULT_MODULE_ID)


def test_a_state_in_memory_is_gone_on_from_bit_for_bit():
    first, second = ppo().build_algo(), ppo().debugging(seed=7).build_algo()
    other = ppo(fcnet_hiddens=[4]).build_algo()
    try:
        first.train()
        state = first.get_state()
        expected = first.train()
        second.set_state(state)
        assert second.iteration == 1
        found = second.train()
        assert found["num_env_steps_sampled_lifetime"] == expected["num_env_steps_sampled_lifetime"]
        assert found["training_iteration"] == 2
        for name, array in first.learner_group.get_weights()["default_policy"].items():
            assert np.array_equal(array, second.get_weights()["default_policy"][name])
        with pytest.raises(_checkpoints.CheckpointError, match="the state is of another shape"):
            other.set_state(state)
        with pytest.raises(_checkpoints.CheckpointError, match="what get_state"):
            other.set_state({})
    finally:
        for algo in (first, second, other):
            algo.stop()


def test_learners_give_and_take_weights():
    algo = ppo().build_algo()
    try:
        weights = algo.learner_group.get_weights()
        zeros = {"default_policy": {name: np.zeros_like(one) for name, one in weights["default_policy"].items()}}
        algo.learner_group.set_weights(zeros)
        outputs = algo.get_module().forward_inference({"obs": np.ones((1, 4), np.float32)})["action_dist_inputs"]
        assert outputs.tolist() == [[0.0, 0.0]]
    finally:
        algo.stop()


def test_likelihoods_of_choices_sum_to_one_and_those_of_numbers_are_a_gaussian_s():
    algo = ppo(Shifted).build_algo()
    seen = np.array([[0.1, 0.2, 0.3]] * 3, np.float32)
    logp = algo.get_policy().compute_log_likelihoods([-1, 0, 1], seen)
    assert np.exp(logp).sum() == pytest.approx(1.0, abs=1e-5)
    algo.stop()
    algo = ppo(Line).build_algo()
    policy = algo.get_policy()
    inputs = policy.inputs(seen[:1])[0]
    means, logs = inputs[:2], inputs[2:]
    action = np.array([0.3, -0.4], np.float32)
    expected = -(0.5 * ((action - means) / np.exp(logs)) ** 2 + logs + 0.5 * np.log(2 * np.pi)).sum()
    assert policy.compute_log_likelihoods([action], seen[:1])[0] == pytest.approx(expected, abs=1e-5)
    own = np.array([1.3, -2.0])  # the same between the environment's bounds
    found = policy.compute_log_likelihoods([own], seen[:1], actions_normalized=False)[0]
    assert found == pytest.approx(expected, abs=1e-5)
    algo.stop()
    algo = small(DQNConfig, "CartPole-v1").build_algo()
    with pytest.raises(ValueError, match="not available for DQN"):
        algo.get_policy().compute_log_likelihoods([0], np.zeros((1, 4)))
    algo.stop()


def test_distributions_draw_what_the_outputs_say():
    algo = ppo().build_algo()
    kind = algo.get_module().get_exploration_action_dist_cls()
    made = kind.from_logits(np.tile(np.log(np.array([0.25, 0.75], np.float32)), (4000, 1)))
    drawn = made.sample()
    assert drawn.shape == (4000,)
    assert 0.65 < drawn.mean() < 0.85  # fourteen deviations
    assert set(made.to_deterministic().sample().tolist()) == {1}
    assert made.logp(np.zeros(4000))[0] == pytest.approx(np.log(0.25), abs=1e-5)
    assert kind.from_logits(np.zeros((2, 3, 2))).sample().shape == (2, 3)
    algo.stop()
    algo = ppo(Line).build_algo()
    kind = algo.get_module().get_inference_action_dist_cls()
    inputs = np.array([[0.5, -0.5, 0.0, -1.0]], np.float32)
    assert kind.from_logits(inputs).to_deterministic().sample().tolist() == [[0.5, -0.5]]
    algo.stop()
