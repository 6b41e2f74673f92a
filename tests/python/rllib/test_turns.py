"""Every batch of several agents is learned from, whoever is in the middle of an episode when it ends.

Streams once gave nothing while a step was open. At the end of a batch nearly every agent has one, so whole batches were kept back until a batch
happened to end together with an episode; where episodes do not end nothing was ever learned.
"""

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib._engine import ENGINE_VARIABLE
from eagleray.rllib.algorithms import Algorithm, DQNConfig, PPOConfig
from eagleray.rllib.env import MultiAgentEnv

AGENTS = ("a", "b")


class Room(MultiAgentEnv):
    """Agents see the number of their own step, and are paid by it. `length` None: it never ends. `turns`: one acts at a time."""

    observation_space = gym.spaces.Box(-1.0, 1e6, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    possible_agents = list(AGENTS)

    def __init__(self, config=None):
        super().__init__()
        self.length, self.takes_turns = config.get("length"), config.get("turns", False)
        self.count = dict.fromkeys(AGENTS, 0)

    def _look(self):
        agents = [AGENTS[self.at % 2]] if self.takes_turns else AGENTS
        return {agent: np.array([self.count[agent]], np.float32) for agent in agents}

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._look(), {}

    def step(self, actions):
        self.at += 1
        rewards = {agent: float(self.count[agent]) for agent in actions}
        for agent in actions:
            self.count[agent] += 1
        return self._look(), rewards, {"__all__": self.at == self.length}, {"__all__": False}, {}


def by_agent(made, **env_config):
    return (
        made.environment(Room, env_config=env_config)
        .env_runners(num_env_runners=0)
        .multi_agent(policies=set(AGENTS), policy_mapping_fn=lambda agent, *_, **__: agent)
        .debugging(seed=1)
    )


def ppo(**env_config):
    return by_agent(PPOConfig(), **env_config).training(
        train_batch_size=64, minibatch_size=32, num_epochs=1, lr=1e-2, model={"fcnet_hiddens": [8]}
    )


def changed(algorithm: Algorithm, before: dict) -> set:
    after = algorithm.get_weights()
    return {
        policy
        for policy, arrays in after.items()
        if any((array != before[policy][name]).any() for name, array in arrays.items())
    }


@pytest.mark.parametrize("turns", [False, True], ids=["together", "in turn"])
@pytest.mark.parametrize("length", [7, 50, None], ids=["short", "uneven", "endless"])
def test_every_policy_learns_in_every_iteration(length, turns):
    algorithm = ppo(length=length, turns=turns).build_algo()
    for _ in range(4):
        before = algorithm.get_weights()
        result = algorithm.train()
        assert changed(algorithm, before) == set(AGENTS)
        assert set(result["info"]["learner"]) == set(AGENTS)
    each = 1 if turns else 2
    sampled = result["num_agent_steps_sampled_lifetime"]
    assert sampled == each * result["num_env_steps_sampled_lifetime"]
    # Of each agent that waits for its turn one step may be left.
    assert sampled - 2 * turns <= result["num_agent_steps_trained"] <= sampled
    assert result["num_env_steps_trained_lifetime"] >= result["num_env_steps_sampled_lifetime"] - 2 * turns
    algorithm.stop()


def test_a_replay_gets_the_steps_of_an_endless_game_too():
    made = by_agent(DQNConfig(), length=None, turns=True).training(
        train_batch_size=8, num_steps_sampled_before_learning_starts=16, model={"fcnet_hiddens": [8]}
    )
    algorithm = made.reporting(min_sample_timesteps_per_iteration=64).build_algo()
    before = algorithm.get_weights()
    algorithm.train()
    assert changed(algorithm, before) == set(AGENTS)
    algorithm.stop()


@pytest.mark.parametrize("turns", [False, True], ids=["together", "in turn"])
@pytest.mark.parametrize("length", [7, None], ids=["ends", "endless"])
@pytest.mark.parametrize("steps", [5, 16, 33])
def test_no_step_is_lost_or_doubled(length, turns, steps, monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "tests.python.rllib.fake_engine:FakeEngine")
    algorithm = ppo(length=length, turns=turns).build_algo()
    runner = algorithm.env_runner
    found = {agent: [] for agent in AGENTS}
    acted = 0
    for _ in range(6):
        sample = runner.sample(num_timesteps=steps)
        acted += sample.agent_steps
        for agent, rollouts in sample.rollouts.items():
            for rollout in rollouts:
                seen = rollout.seen.reshape(-1).tolist()
                assert seen == rollout.rewards.reshape(-1).tolist(), "each step is paid by what it saw"
                found[agent] += seen
    for seen in found.values():
        assert sorted(seen) == list(range(len(seen)))
    kept = acted - sum(len(seen) for seen in found.values())
    # In turns, the agent that is not asked has its last step open; in batches that are too short to be made longer those before it stay too.
    assert kept == 0 if not turns else kept <= (1 if steps >= 16 else steps)
    algorithm.stop()


def test_an_episode_that_is_given_up_leads_to_nothing_of_the_next(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "tests.python.rllib.fake_engine:FakeEngine")
    algorithm = ppo(length=None, turns=True).build_algo()
    runner = algorithm.env_runner
    runner.sample(num_timesteps=3)
    sample = runner.sample(num_timesteps=4, force_reset=True)
    # Agent a had acted twice and waited for its turn: what it did then is its end, and what it does after the reset another rollout.
    assert [rollout.terminated.reshape(-1).tolist() for rollout in sample.rollouts["a"]] == [
        [False, True],
        [False, False],
    ]
    algorithm.stop()
