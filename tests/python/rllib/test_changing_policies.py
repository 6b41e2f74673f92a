"""Policies that are added and removed while an algorithm trains: runners, learners, checkpoints and callbacks go along."""

import re

import gymnasium as gym
import numpy as np
import pytest

import eagleray as ray
from eagleray.rllib.algorithms import Algorithm, DQNConfig, ESConfig, PPOConfig
from eagleray.rllib.core.rl_module.rl_module import RLModuleSpec
from eagleray.rllib.env import MultiAgentEnv
from eagleray.rllib.policy.policy import Policy
from eagleray.rllib.utils.error import PolicyMappingError

AGENTS = ("a", "b")


class Pair(MultiAgentEnv):
    """Two agents that act together. Episodes have ten steps."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    possible_agents = list(AGENTS)

    def __init__(self, config=None):
        super().__init__()
        self.rng = np.random.default_rng(1)

    def _look(self):
        self.sign = {agent: self.rng.choice([-1.0, 1.0]) for agent in AGENTS}
        return {agent: np.array([sign, 0.5], np.float32) for agent, sign in self.sign.items()}

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._look(), {}

    def step(self, actions):
        self.at += 1
        rewards = {agent: float((self.sign[agent] > 0) == action) for agent, action in actions.items()}
        return self._look(), rewards, {"__all__": self.at == 10}, {"__all__": False}, {}


def to_main(agent, *_, **__):
    return "main"


def by_side(agent, *_, **__):
    return "main" if agent == "a" else "other"


def config(kind=PPOConfig, runners=0, **training):
    made = kind().environment(Pair).env_runners(num_env_runners=runners, rollout_fragment_length=50)
    made.multi_agent(policies={"main"}, policy_mapping_fn=to_main).debugging(seed=2)
    if kind is PPOConfig:
        training = {"train_batch_size": 100, "minibatch_size": 50, "num_epochs": 2, "lr": 1e-2, **training}
    return made.training(model={"fcnet_hiddens": [8]}, **training)


def steps_by(result):
    return set(result["info"]["learner"])


def first_widths(weights):
    """How wide the layers are that see the two numbers."""
    return {len(one) for one in weights.values() if one.ndim == 2 and one.shape[1] == 2}


def same(one, other):
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize("runners", [0, 2])
def test_a_policy_that_is_added_acts_and_learns_from_then_on(runners, request):
    if runners:
        request.getfixturevalue("shared_ray")
    algorithm = config(runners=runners).evaluation(evaluation_duration=2).build_algo()
    assert steps_by(algorithm.train()) == {"main"}
    algorithm.evaluate()
    kept = algorithm.get_policy("main").get_weights()
    added = algorithm.add_policy("other", type(algorithm.get_policy("main")), policy_mapping_fn=by_side)
    assert added is algorithm.get_policy("other")
    assert same(algorithm.get_policy("main").get_weights(), kept)
    before = algorithm.get_weights()
    # Episodes end with the batch, so that both act in the next.
    result = algorithm.train()
    assert steps_by(result) == {"main", "other"}
    assert set(result["policy_reward_mean"]) == {"main", "other"}
    after = algorithm.get_weights()
    assert not any(same(before[name], after[name]) for name in ("main", "other"))
    held = algorithm.workers.foreach_worker(lambda worker: worker.get_weights())
    assert all(same(one[name], after[name]) for one in held for name in after)
    found = algorithm.evaluate()["env_runners"]["module_episode_returns_mean"]
    assert set(found) == {"main", "other"}
    assert algorithm.config.policy_specs().keys() == result["config"]["policies"].keys() == {"main", "other"}
    algorithm.stop()


def test_agents_stay_with_their_policy_to_the_end_of_the_episode():
    algorithm = config().build_algo()
    runner = algorithm.env_runner
    runner.sample(num_timesteps=5)
    algorithm.add_policy("other", policy_mapping_fn=by_side)
    counts = [{name: sum(r.steps for r in found) for name, found in runner.sample(num_timesteps=5).rollouts.items()}]
    counts += [{name: sum(r.steps for r in found) for name, found in runner.sample(num_timesteps=10).rollouts.items()}]
    assert counts == [{"main": 10, "other": 0}, {"main": 10, "other": 10}]
    algorithm.stop()


@pytest.mark.parametrize("runners", [0, 1])
def test_agents_of_a_policy_that_is_removed_go_on_by_another(runners, request):
    if runners:
        request.getfixturevalue("shared_ray")
    made = config(runners=runners, train_batch_size=45, minibatch_size=45).multi_agent(policies={"main", "other"})
    algorithm = made.multi_agent(policy_mapping_fn=by_side).env_runners(rollout_fragment_length=45).build_algo()
    # The batch ends in the middle of an episode.
    assert steps_by(algorithm.train()) == {"main", "other"}
    algorithm.remove_policy("other", policy_mapping_fn=to_main)
    result = algorithm.train()
    assert steps_by(result) == {"main"}
    assert result["num_agent_steps_trained"] == result["num_agent_steps_sampled"]
    with pytest.raises(KeyError, match="no policy 'other'; there are \\['main'\\]"):
        algorithm.get_policy("other")
    assert algorithm.get_weights().keys() == {"main"}
    algorithm.stop()


def test_a_copy_that_does_not_learn_stays_as_it_is(tmp_path):
    algorithm = config().build_algo()
    algorithm.train()
    main = algorithm.get_policy("main")
    then = main.get_weights()
    chosen = {"policy_mapping_fn": by_side, "policies_to_train": ["main"]}
    frozen = algorithm.add_policy("other", policy_state=main.get_state(), **chosen)
    assert same(frozen.get_weights(), then)
    algorithm.train()
    assert same(frozen.get_weights(), then)
    assert not same(main.get_weights(), then)
    # As older programs do it; and of a checkpoint, with the network that it has there.
    frozen.set_state(main.get_state())
    algorithm.workers.sync_weights()
    assert same(algorithm.env_runner.get_weights()["other"], main.get_weights())
    path = algorithm.save_to_path(tmp_path)
    wider = config(PPOConfig).training(model={"fcnet_hiddens": [5]}).build_algo()
    deployed = Policy.from_checkpoint(path)["main"]
    taken = wider.add_policy("other", policy=deployed, policy_mapping_fn=by_side)
    assert same(taken.get_weights(), main.get_weights())
    wider.train()
    wider.stop()
    algorithm.stop()


@pytest.mark.parametrize("how", ["from_checkpoint", "restore", "state"])
@pytest.mark.parametrize("kind", [PPOConfig, DQNConfig])
def test_checkpoints_hold_what_was_added_and_not_what_was_removed(kind, how, tmp_path):
    algorithm = config(kind).build_algo()
    algorithm.train()
    own = {"model": {"fcnet_hiddens": [4, 4]}}
    algorithm.add_policy("other", config=own, policy_mapping_fn=by_side, policies_to_train=["other"])
    algorithm.add_policy("third")
    algorithm.train()
    algorithm.remove_policy("third")
    if how == "state":
        made = config(kind).build_algo()
        made.set_state(algorithm.get_state())
    else:
        path = algorithm.save_to_path(tmp_path)
        made = Algorithm.from_checkpoint(path) if how == "from_checkpoint" else config(kind).build_algo()
        if how == "restore":
            made.restore_from_path(path)
    assert made.get_weights().keys() == {"main", "other"}
    assert all(same(one, made.get_weights()[name]) for name, one in algorithm.get_weights().items())
    assert first_widths(made.get_policy("other").get_weights()) == {4}
    before = made.get_weights()
    result = made.train()
    assert steps_by(result) == {"other"}
    assert same(before["main"], made.get_policy("main").get_weights())
    # A checkpoint of that goes on with them too, also in an algorithm that begins without.
    again = config(kind).build_algo()
    again.restore(made.save(str(tmp_path / "again")).path)
    assert again.get_weights().keys() == {"main", "other"}
    for one in (algorithm, made, again):
        one.stop()


def test_a_runner_that_is_replaced_knows_them_too(shared_ray):
    algorithm = config(runners=2).build_algo()
    algorithm.train()
    algorithm.add_policy("other", policy_mapping_fn=by_side)
    ray.kill(algorithm.workers.remote_workers()[0])
    for _ in range(3):
        result = algorithm.train()
    assert result["num_remote_worker_restarts"] == 1
    held = algorithm.workers.foreach_worker(lambda worker: sorted(worker.get_weights()))
    assert held == [["main", "other"]] * 3
    algorithm.stop()


def test_a_callback_lets_an_algorithm_play_against_its_past():
    def next_opponent(algorithm, result, **_):
        number = len(algorithm.learners)
        name = f"past_{number}"
        new = algorithm.add_policy(
            name,
            policy_mapping_fn=lambda agent, episode, **_: "main" if agent == "a" else name,
            policies_to_train=["main"],
        )
        new.set_state(algorithm.get_policy("main").get_state())
        algorithm.workers.sync_weights()

    made = config().callbacks(on_train_result=next_opponent)
    algorithm = made.build_algo()
    found = [algorithm.train()["env_runners"]["module_episode_returns_mean"] for _ in range(3)]
    assert [sorted(one)[-1] for one in found] == ["main", "past_1", "past_2"]
    assert sorted(algorithm.learners) == ["main", "past_1", "past_2", "past_3"]
    algorithm.stop()


def test_newer_programs_say_modules():
    created = []
    made = config().callbacks(on_create_policy=lambda policy_id, **_: created.append(policy_id))
    algorithm = made.build_algo()
    module = algorithm.add_module(
        "other", RLModuleSpec(model_config={"fcnet_hiddens": [3]}), new_agent_to_module_mapping_fn=by_side
    )
    assert created == ["main", "other"]
    assert first_widths(module.get_state()) == {3}
    assert steps_by(algorithm.train()) == {"main", "other"}
    algorithm.remove_module("other", new_agent_to_module_mapping_fn=to_main)
    assert steps_by(algorithm.train()) == {"main"}
    algorithm.stop()


@pytest.mark.parametrize("runners", [0, 1])
def test_what_is_refused_has_changed_nothing(runners, request):
    if runners:
        request.getfixturevalue("shared_ray")
    algorithm = config(runners=runners).build_algo()
    weights, settings = algorithm.get_weights(), algorithm.config
    for refused, kind, text in (
        (lambda: algorithm.add_policy("main"), ValueError, "there is a policy 'main' already"),
        (lambda: algorithm.remove_policy("x"), KeyError, "no policy 'x'"),
        (lambda: algorithm.remove_policy("main"), ValueError, "at least one policy"),
        (lambda: algorithm.add_policy("y", policies_to_train=["mian"]), ValueError, "Did you mean 'main'?"),
        (lambda: algorithm.add_policy("y", config={"lrr": 1}), ValueError, "unknown setting 'lrr'"),
        (
            lambda: algorithm.add_policy("y", policy_state={"weights": {"w": np.zeros(3)}}),
            ValueError,
            "no tensor pi.0.weight",
        ),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            refused()
        assert algorithm.config is settings
        assert same(algorithm.get_weights()["main"], weights["main"])
        assert algorithm.learners.keys() == {"main"}
    assert steps_by(algorithm.train()) == {"main"}
    # A mapping that names what is gone says so.
    algorithm.add_policy("other", policy_mapping_fn=by_side)
    algorithm.remove_policy("other")
    with pytest.raises(PolicyMappingError, match="policy_mapping_fn gave 'other' for agent 'b'; the policies are"):
        algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize(("kind", "text"), [(PPOConfig, "no MultiAgentEnv"), (ESConfig, "ES has one policy")])
def test_one_agent_has_one_policy(kind, text):
    algorithm = kind().environment("CartPole-v1").env_runners(num_env_runners=0).build_algo()
    with pytest.raises(ValueError, match=text):
        algorithm.add_policy("other")
    algorithm.stop()
