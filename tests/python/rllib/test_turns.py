"""Every batch of several agents is learned from, whoever is in the middle of an episode when it ends.

Streams once gave nothing while a step was open. At the end of a batch nearly every agent has one, so whole batches were kept back until a batch
happened to end together with an episode; where episodes do not end nothing was ever learned.
"""

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib._engine import ENGINE_VARIABLE
from eagleray.rllib.algorithms import Algorithm, DQNConfig, PPOConfig
from eagleray.rllib.env import MultiAgentEnv, _samplers
from eagleray.rllib.utils.error import EnvError

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


# `batch_mode` was not looked at: batches ended wherever they were long enough.
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("turns", [False, True], ids=["together", "in turn"])
@pytest.mark.parametrize("steps", [1, 5, 16])
def test_complete_episodes_are_whole_for_every_agent(turns, steps, envs, monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "tests.python.rllib.fake_engine:FakeEngine")
    made = ppo(length=7, turns=turns)
    made.env_runners(batch_mode="complete_episodes", num_envs_per_env_runner=envs)
    algorithm = made.build_algo()
    runner = algorithm.env_runner
    for _ in range(4):
        sample = runner.sample(num_timesteps=steps)
        episodes = -(-steps // 7)
        assert sample.env_steps == 7 * episodes
        assert len(runner.get_metrics().episodes) == episodes
        for agent, rollouts in sample.rollouts.items():
            ends = [rollout.terminated.reshape(-1).tolist() for rollout in rollouts]
            assert all(one[-1] for one in ends)
            assert sum(map(sum, ends)) == episodes
            # In turns a begins, and has one step more.
            each = (4 if agent == "a" else 3) if turns else 7
            assert sum(map(len, ends)) == each * episodes
    assert runner.sample(num_episodes=2).env_steps == 14
    algorithm.stop()


@pytest.mark.parametrize("turns", [False, True], ids=["together", "in turn"])
def test_all_of_complete_episodes_is_learned_from(turns):
    made = ppo(length=10, turns=turns).env_runners(batch_mode="complete_episodes")
    algorithm = made.training(use_gae=False).build_algo()
    for _ in range(3):
        before = algorithm.get_weights()
        result = algorithm.train()
        assert changed(algorithm, before) == set(AGENTS)
        assert result["timesteps_this_iter"] % 10 == 0
        assert result["num_agent_steps_trained"] == result["num_agent_steps_sampled"]
    algorithm.stop()


def test_complete_episodes_that_do_not_end_are_an_error(monkeypatch):
    monkeypatch.setattr(_samplers, "ENDLESS_STEPS", 50)
    algorithm = ppo(length=None).env_runners(batch_mode="complete_episodes").build_algo()
    with pytest.raises(EnvError, match="no episode has ended in 50 steps, and whole ones are wanted: set `horizon`"):
        algorithm.train()
    algorithm.stop()
    cut = ppo(length=None).env_runners(batch_mode="complete_episodes").environment(horizon=20).build_algo()
    assert cut.train()["episode_len_mean"] == 20
    cut.stop()


# Four environments side by side played four episodes where one was asked for.
@pytest.mark.parametrize("mode", ["truncate_episodes", "complete_episodes"])
@pytest.mark.parametrize("episodes", [1, 5, 8])
def test_so_many_episodes_are_played_and_no_more(episodes, mode):
    made = ppo(length=7).env_runners(num_envs_per_env_runner=4, batch_mode=mode)
    algorithm = made.evaluation(evaluation_duration=episodes).build_algo()
    for _ in range(2):
        found = algorithm.evaluate()["env_runners"]
        assert (found["num_episodes"], found["num_env_steps_sampled"]) == (episodes, 7 * episodes)
    # Of a runner in the middle of others too, without losing those.
    runner = algorithm.env_runner
    runner.sample(num_timesteps=4)
    runner.get_metrics()
    runner.sample(num_episodes=episodes)
    assert len(runner.get_metrics().episodes) == episodes
    algorithm.stop()


class Quiet(Room):
    """After step `ends` nobody is told anything for `pause` steps; then agent a plays on. `is_over`: both have ended then."""

    def __init__(self, config=None):
        super().__init__(config)
        self.ends, self.pause, self.is_over = config["ends"], config["pause"], config["is_over"]

    def step(self, actions):
        self.at += 1
        ended = dict.fromkeys(AGENTS, self.is_over and self.at == self.ends)
        seen = {}
        if not self.ends <= self.at < self.ends + self.pause:
            seen = {"a": np.zeros(1, np.float32)}
        return seen, dict.fromkeys(actions, 1.0), {**ended, "__all__": self.at >= 2000}, {"__all__": False}, {}


@pytest.mark.parametrize(
    ("is_over", "who"), [(True, "no agent is left"), (False, "agents 'a', 'b' wait for one")], ids=["ended", "waiting"]
)
def test_an_environment_in_which_nobody_acts_any_more_is_an_error(is_over, who):
    # It was stepped on without agents, for ever where episodes do not end.
    made = ppo().environment(Quiet, env_config={"ends": 5, "pause": 10**9, "is_over": is_over})
    algorithm = made.training(train_batch_size=1500).build_algo()
    text = rf"sub-environment 0, step 1005: nobody has acted for 1000 steps.*\({who}\).*'__all__': True"
    with pytest.raises(EnvError, match=text):
        algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize("is_over", [True, False])
def test_agents_may_come_back_after_a_while(is_over):
    made = ppo().environment(Quiet, env_config={"ends": 5, "pause": 999, "is_over": is_over})
    algorithm = made.training(train_batch_size=1500).build_algo()
    result = algorithm.train()
    assert result["num_env_steps_sampled_lifetime"] >= 1500
    assert result["num_agent_steps_sampled_lifetime"] == result["num_env_steps_sampled_lifetime"] - 999 + 1
    algorithm.stop()


@pytest.mark.parametrize("parts", [4, 5])
def test_a_step_says_whether_it_is_over_for_all(parts):
    # Without the key no episode ended.
    class Silent(Room):
        def step(self, actions):
            seen, rewards, _, _, infos = super().step(actions)
            ends = [{"a": self.at == 3}, {}][: parts - 3]
            return seen, rewards, *ends, infos

    algorithm = ppo().environment(Silent).build_algo()
    name = "dones" if parts == 4 else "terminateds"
    text = rf"sub-environment 0, step 1: .*add '__all__': True or False to \{{'a': False\}}, the {name}"
    with pytest.raises(EnvError, match=text):
        algorithm.train()
    algorithm.stop()


def test_agents_are_paid_by_their_own_policy_before_they_ever_acted():
    # What agent b got in the first step, while a acted, was booked to 'default_policy', which does not exist.
    class BothPaid(Room):
        def step(self, actions):
            seen, _, terminated, truncated, infos = super().step(actions)
            return seen, {"a": 1.0, "b": 10.0}, terminated, truncated, infos

    asked = []

    def mapping(agent, episode, **_):
        asked.append((agent, episode.episode_id))
        return agent

    made = ppo().environment(BothPaid, env_config={"length": 6, "turns": True})
    algorithm = made.multi_agent(policy_mapping_fn=mapping).build_algo()
    asked.clear()
    result = algorithm.train()
    assert result["policy_reward_mean"] == {"a": 6.0, "b": 60.0}
    assert result["env_runners"]["module_episode_returns_mean"] == {"a": 6.0, "b": 60.0}
    assert result["episode_reward_mean"] == 66.0
    assert len(asked) == len(set(asked)), "each agent is mapped once in an episode"
    algorithm.stop()
