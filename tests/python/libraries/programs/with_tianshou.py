"""Environments in actors, stepped together."""

import gymnasium as gym
import numpy as np
import ray
from tianshou.env import RayVectorEnv

if __name__ == "__main__":
    ray.init(num_cpus=2)
    envs = RayVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(3)])
    envs.seed(1)
    observed, _ = envs.reset()
    assert observed.shape == (3, 4)
    for _ in range(20):
        observed, reward, terminated, truncated, _ = envs.step(np.ones(3, dtype=int))
        if terminated.any():
            envs.reset(np.where(terminated)[0])
    assert (reward == 1.0).all()
    envs.close()
    print("tianshou ran on eagleray", ray.__name__)
