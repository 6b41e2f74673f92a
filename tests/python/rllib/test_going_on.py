"""After an error or Ctrl-C in the midst of sampling a program may go on: what was begun is dropped, and nothing else is lost."""

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib.algorithms.a2c import A2CConfig
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.es import ESConfig
from eagleray.rllib.algorithms.impala import IMPALAConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.env.multi_agent_env import MultiAgentEnv

pytestmark = pytest.mark.usefixtures("shared_ray")


class Failing(gym.Env):
    """Fails once, in the midst of a vector step: the first environment has made it then, this one not."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    failure = None

    def __init__(self, config=None):
        self.index = 0 if config is None else config.vector_index

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.index == 1 and self.steps == 17 and Failing.failure is not None:
            failure, Failing.failure = Failing.failure, None
            raise failure
        return np.full(2, self.steps / 20, np.float32), float(action), self.steps == 20, False, {}


class FailingAgents(MultiAgentEnv):
    """The same for two agents that act at once."""

    def __init__(self, config=None):
        super().__init__()
        self.inner = Failing(config)
        self.agents = self.possible_agents = ["one", "other"]
        self.observation_space, self.action_space = Failing.observation_space, Failing.action_space

    def reset(self, *, seed=None, options=None):
        seen, _ = self.inner.reset()
        return dict.fromkeys(self.agents, seen), {}

    def step(self, actions):
        seen, reward, ended, _, _ = self.inner.step(actions["one"])
        both = dict.fromkeys
        return both(self.agents, seen), both(self.agents, reward), {"__all__": ended}, {"__all__": False}, {}


def small(config, env=Failing, **model):
    config.environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=2).debugging(seed=3)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
    return config.rl_module(model_config={"fcnet_hiddens": [8], **model})


def ppo(env=Failing, **model):
    return small(PPOConfig(), env, **model).training(train_batch_size_per_learner=128, minibatch_size=64, num_epochs=1)


ALGORITHMS = {
    "PPO": ppo,
    "PPO with a filter": lambda: ppo().env_runners(observation_filter="MeanStdFilter"),
    "PPO with a memory": lambda: ppo(use_lstm=True, lstm_cell_size=4),
    "PPO of whole episodes": lambda: ppo().env_runners(batch_mode="complete_episodes"),
    "PPO of several agents": lambda: ppo(FailingAgents).multi_agent(
        policies={"p"}, policy_mapping_fn=lambda *_, **__: "p"
    ),
    "A2C": lambda: small(A2CConfig()),
    "IMPALA": lambda: small(IMPALAConfig()),
    "DQN of several steps": lambda: small(DQNConfig()).training(
        num_steps_sampled_before_learning_starts=0, n_step=3, train_batch_size_per_learner=16
    ),
}


@pytest.mark.parametrize("failure", [ValueError("mid-sample"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_training_goes_on_after_a_failure_within_a_step(name, failure, tmp_path):
    algorithm = ALGORITHMS[name]().build_algo()
    try:
        Failing.failure = failure
        with pytest.raises(type(failure)):
            for _ in range(3):
                algorithm.train()
        before = algorithm.get_policy(*algorithm.learners).get_weights()
        results = [algorithm.train() for _ in range(2)]
        after = algorithm.get_policy(*algorithm.learners).get_weights()
        assert any(not np.array_equal(before[key], after[key]) for key in before)
        # Episodes are whole ones: twenty steps each, from their beginning.
        assert results[-1]["episode_len_mean"] == 20
        algorithm.save_to_path(str(tmp_path))
    finally:
        Failing.failure = None
        algorithm.stop()


def test_a_generation_that_was_broken_off_is_left_out(monkeypatch):
    config = ESConfig().environment("CartPole-v1").env_runners(num_env_runners=0).debugging(seed=3)
    config.training(episodes_per_batch=4, train_batch_size=10).rl_module(model_config={"fcnet_hiddens": [4]})
    algorithm = config.build_algo()
    tried, group = algorithm.env_runner_group.map, algorithm.env_runner_group

    def interrupted(calls):
        monkeypatch.setattr(group, "map", tried)
        raise KeyboardInterrupt

    monkeypatch.setattr(group, "map", interrupted)
    with pytest.raises(KeyboardInterrupt):
        algorithm.train()
    assert algorithm.train()["episode_reward_mean"] > 0
    algorithm.stop()


def test_algorithms_that_nobody_stopped_and_nobody_can_reach_give_their_cores_back():
    for _ in range(4):
        config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=1)
        config.training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        algorithm = config.build_algo()
        assert algorithm.train()["num_env_steps_sampled_lifetime"] >= 64
    algorithm.stop()
