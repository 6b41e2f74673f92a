"""Choices and numbers in one action: a `Box` beside discrete spaces, in a `Tuple` or a `Dict`, however deep."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from eagleray.rllib.algorithms import A2CConfig, Algorithm, DQNConfig, ESConfig, IMPALAConfig, PPOConfig, SACConfig
from eagleray.rllib.core.rl_module.rl_module import RLModuleSpec
from eagleray.rllib.env.spaces import ActionForm
from eagleray.rllib.export import to_numpy
from eagleray.rllib.policy.policy import Policy
from eagleray.rllib.utils import framework
from eagleray.rllib.utils.error import CustomModelError, SpaceMismatchError

PAIR = Tuple([Discrete(2), Box(0.0, 10.0, (1,), np.float32)])
DEEP = Dict(
    aim=Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)),
    rest=Tuple([Discrete(3, start=5), Dict(on=MultiBinary(2), speed=Box(-2.0, 2.0, (2, 1), np.float32))]),
    way=MultiDiscrete([2, 4]),
)
NUMBERS = Tuple([Box(0.0, 10.0, (1,), np.float32), Box(-np.inf, np.inf, (2,), np.float32)])


class Aim(gym.Env):
    """Shows a sign and a place. Pays for naming the sign, and for a number near the place. One step an episode."""

    observation_space = Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, config=None):
        self.action_space = (config or {}).get("space", PAIR)
        self.is_paid = self.action_space == PAIR
        self.rng = np.random.default_rng(3)

    def reset(self, *, seed=None, options=None):
        self.sign, self.place = self.rng.choice([-1.0, 1.0]), self.rng.uniform(-1.0, 1.0)
        return np.array([self.sign, self.place], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = 0.0
        if self.is_paid:
            choice, (number,) = action
            reward = float(choice == (self.sign > 0)) - abs(number / 5.0 - 1.0 - self.place)
        return np.zeros(2, np.float32), reward, True, False, {}


def config(kind=PPOConfig, space=PAIR, **model):
    made = kind().environment(Aim, env_config={"space": space}).env_runners(num_env_runners=0).debugging(seed=1)
    if kind is PPOConfig:
        made.training(train_batch_size=512, minibatch_size=128, num_epochs=8, lr=5e-3)
    made.reporting(min_time_s_per_iteration=0)
    return made.rl_module(model_config={"fcnet_hiddens": [32], **model})


@pytest.mark.parametrize("space", [PAIR, DEEP, NUMBERS], ids=["pair", "deep", "numbers"])
def test_actions_are_of_their_space_and_rows_come_back(space):
    form = ActionForm(space)
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1.0, 1.0, (20, form.acted.size)).astype(np.float32)
    for at, count in enumerate(form.acted.choices):
        rows[:, at] = rng.integers(count, size=20)
    actions = form.actions(rows)
    assert all(space.contains(action) for action in actions)
    assert np.allclose(np.concatenate([form.row(action) for action in actions]), rows, atol=1e-5)


def test_rows_hold_choices_and_then_numbers():
    acted = ActionForm(DEEP).acted
    assert (acted.kind, acted.choices, acted.size) == ("mixed", (3, 2, 2, 2, 4), 9)
    assert acted.low == (-1.0, 0.0, -2.0, -2.0)
    assert ActionForm(NUMBERS).acted.kind == "box"
    assert ActionForm(PAIR).actions(np.array([[1.0, -3.0]], np.float32)) == [(1, np.array([0.0], np.float32))]
    assert ActionForm(PAIR, normalize=False).actions(np.array([[0.0, 3.5]], np.float32)) == [(0, np.array([3.5]))]


@pytest.mark.parametrize("action", [(2, [3.0]), (0,), (0, [1.0], 1), (0, [1.0, 2.0]), 3, (0, [np.nan])])
def test_what_is_no_action_is_refused(action):
    with pytest.raises(SpaceMismatchError, match="does not fit"):
        ActionForm(PAIR).row(action)


# It was refused: "inside of another space cannot be acted in".
@pytest.mark.parametrize("model", [{}, {"free_log_std": True}, {"vf_share_layers": True}], ids=str)
def test_ppo_learns_both_at_once(model):
    algorithm = config(**model).build_algo()
    first = algorithm.train()["episode_reward_mean"]
    for _ in range(25):
        last = algorithm.train()["episode_reward_mean"]
    # By chance half of the signs are right, and numbers are half the room away.
    assert first < 0.3
    assert last > 0.75, last
    right = 0.0
    for sign, place in ((-1.0, 0.5), (1.0, -0.5), (1.0, 0.8), (-1.0, 0.0)):
        choice, (number,) = algorithm.compute_single_action(np.array([sign, place], np.float32), explore=False)
        assert choice == (sign > 0)
        right += abs(number / 5.0 - 1.0 - place)
    assert right / 4 < 0.2
    algorithm.stop()


@pytest.mark.parametrize("space", [PAIR, DEEP], ids=["pair", "deep"])
@pytest.mark.parametrize("kind", [PPOConfig, A2CConfig, IMPALAConfig, ESConfig, "memory"])
def test_all_that_learn_policies_take_them(kind, space, tmp_path):
    if kind is ESConfig:
        made = config(kind, space).training(episodes_per_batch=8, train_batch_size=8)
    elif kind == "memory":
        made = config(PPOConfig, space, use_lstm=True, lstm_cell_size=8, free_log_std=True)
    else:
        made = config(kind, space)
    algorithm = made.build_algo()
    before = algorithm.get_policy().get_weights()
    algorithm.train()
    after = algorithm.get_policy().get_weights()
    assert any((after[name] != before[name]).any() for name in before)
    path = algorithm.save_to_path(tmp_path)
    other = Algorithm.from_checkpoint(path)
    seen = np.array([1.0, 0.25], np.float32)
    action = algorithm.compute_single_action(seen, explore=False)
    assert space.contains(action)
    for one in (other, Policy.from_checkpoint(path)["default_policy"]):
        again = one.compute_single_action(seen, explore=False)
        again = again if one is other else again[0]
        form = ActionForm(space)
        assert (form.row(again) == form.row(action)).all()
    algorithm.stop()
    other.stop()


def test_likelihoods_are_those_of_choices_times_those_of_numbers():
    algorithm = config().build_algo()
    policy = algorithm.get_policy()
    seen = np.array([[1.0, 0.25], [-1.0, 0.5], [0.5, -0.5]], np.float32)
    actions, _, more = policy.compute_actions(seen)
    scores, means, logs = np.split(more["action_dist_inputs"].astype(np.float64), [2, 3], axis=1)
    choices = np.array([action[0] for action in actions])
    expected = scores[np.arange(3), choices] - np.log(np.exp(scores).sum(1))
    of_environment = np.array([action[1] for action in actions], np.float64) / 5.0 - 1.0
    away = (of_environment - means) / np.exp(logs)
    expected += (-0.5 * away**2 - logs - 0.5 * np.log(2 * np.pi))[:, 0]
    inside = (np.abs(of_environment) < 1.0)[:, 0]
    assert inside.any()
    found = policy.compute_log_likelihoods(actions, seen, actions_normalized=False)
    assert np.allclose(found, expected, atol=1e-4)
    own = [(choice, number) for choice, number in zip(choices, of_environment, strict=True)]
    assert np.allclose(policy.compute_log_likelihoods(own, seen), expected, atol=1e-4)
    dist = algorithm.get_module().get_exploration_action_dist_cls().from_logits(more["action_dist_inputs"])
    drawn = dist.sample()
    assert drawn.shape == (3, 2)
    assert np.isin(drawn[:, 0], (0, 1)).all()
    assert np.allclose(dist.logp(np.column_stack([choices, of_environment])), expected, atol=1e-4)
    assert np.allclose(dist.to_deterministic().sample()[:, 1:], means)
    algorithm.stop()


# Deviations that are parameters of their own were laid over all that the network says, which there were means alone.
@pytest.mark.parametrize("model", [{}, {"free_log_std": True}], ids=str)
def test_such_a_policy_is_exported(model):
    algorithm = config(space=DEEP, **model).build_algo()
    algorithm.train()
    seen = np.random.default_rng(1).uniform(-1.0, 1.0, (5, 2)).astype(np.float32)
    _, forward = to_numpy(algorithm)
    expected = algorithm.get_module().forward_inference({"obs": seen})["action_dist_inputs"]
    assert expected.shape == (5, 13 + 2 * 4)
    assert np.allclose(forward(seen), expected, atol=1e-5)
    algorithm.stop()


def test_what_was_done_is_written_as_it_was(tmp_path):
    algorithm = config(space=DEEP).offline_data(output=str(tmp_path)).build_algo()
    algorithm.train()
    algorithm.stop()
    (file,) = tmp_path.glob("*.json")
    action = json.loads(file.read_text().splitlines()[0])["actions"][0]
    assert set(action) == {"aim", "rest", "way"}
    assert ActionForm(DEEP).row(action).shape == (1, 9)


def test_sac_takes_numbers_in_any_nesting():
    algorithm = config(SACConfig, Tuple([Box(-1.0, 1.0, (1,)), Dict(x=Box(0.0, 3.0, (2,)))])).build_algo()
    algorithm.train()
    algorithm.stop()


def test_others_say_what_they_can(monkeypatch):
    for kind, text in ((DQNConfig, "DQN chooses one of several"), (SACConfig, "SAC chooses numbers")):
        with pytest.raises(ValueError, match=text):
            config(kind).build_algo()
    with pytest.raises(ValueError, match="use_sde=True is noise of numbers"):
        config(use_sde=True).build_algo()
    monkeypatch.setattr(framework, "has_torch", lambda: True)
    with pytest.raises(CustomModelError, match="needs a built-in network"):
        config().rl_module(rl_module_spec=RLModuleSpec(module_class=object)).build_algo()
