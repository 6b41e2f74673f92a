"""Runners that fail are replaced, and environments that raise are made anew."""

import os
import tempfile

import gymnasium as gym
import numpy as np
import ray
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo import PPOConfig

ray.init(num_cpus=2)
FOLDER = tempfile.mkdtemp()


class Fragile(gym.Env):
    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, config):
        self.config, self.steps = config, 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        mark = os.path.join(self.config["folder"], "broken")
        if self.steps == 30 and not os.path.exists(mark):
            open(mark, "w").close()
            if self.config["exits"]:
                os._exit(1)
            raise RuntimeError("the environment broke")
        return np.zeros(1, np.float32), 1.0, self.steps % 10 == 0, False, {}


for exits in (True, False):
    folder = tempfile.mkdtemp()
    config = PPOConfig().environment(Fragile, env_config={"folder": folder, "exits": exits})
    config.env_runners(num_env_runners=1).training(train_batch_size=100, minibatch_size=50, num_epochs=1)
    config.fault_tolerance(restart_failed_env_runners=exits, restart_failed_sub_environments=not exits)
    algorithm = config.build_algo()
    for _ in range(2):
        result = algorithm.train()
    assert os.path.exists(os.path.join(folder, "broken"))
    assert result["num_env_steps_sampled_lifetime"] >= 100
    algorithm.stop()
print("ok")
