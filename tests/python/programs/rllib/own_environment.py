"""An environment of the program's own, with settings, by class and by name."""

import gymnasium as gym
import numpy as np
import ray
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

ray.init(num_cpus=2)


class Corridor(gym.Env):
    """Walk to the right end."""

    def __init__(self, config):
        self.end = config.get("length", 5)
        self.worker = config.worker_index
        self.observation_space = Box(0.0, self.end, (1,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.at = max(self.at + (1 if action == 1 else -1), 0)
        done = self.at >= self.end
        return np.array([self.at], np.float32), 1.0 if done else -0.1, done, False, {}


register_env("corridor", lambda config: Corridor(config))
for env, runners in ((Corridor, 0), ("corridor", 1)):
    config = PPOConfig().environment(env, env_config={"length": 4}).env_runners(num_env_runners=runners)
    algorithm = config.training(train_batch_size=200, minibatch_size=50, num_epochs=2).build_algo()
    assert algorithm.train()["env_runners"]["num_episodes"] > 0
    algorithm.stop()
algorithm = DQNConfig().environment(Corridor).training(num_steps_sampled_before_learning_starts=50).build_algo()
assert algorithm.train()["training_iteration"] == 1
algorithm.stop()
print("ok")
