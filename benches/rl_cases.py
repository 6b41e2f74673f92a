"""One case of `rl.py` on eagleray: `rl_cases.py CASE SECONDS`. Prints one line of JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import numpy as np

from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.env.native_env import NativeVectorEnv
from eagleray.tune.registry import register_env


def of_steps(algorithm: Any, seconds: float) -> float:
    """Steps of environments per second while it trains, the first iteration left out."""
    before = algorithm.train()["num_env_steps_sampled_lifetime"]
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        after = algorithm.train()["num_env_steps_sampled_lifetime"]
    rate = (after - before) / (time.perf_counter() - begun)
    algorithm.stop()
    return rate


def like_rllib(hiddens: list[int], env: str = "CartPole-v1", seed: int = 0) -> PPOConfig:
    config = PPOConfig().environment(env).env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    config.training(lr=3e-4, lambda_=0.95, train_batch_size_per_learner=4000, minibatch_size=128, num_epochs=10)
    return config.rl_module(model_config={"fcnet_hiddens": hiddens, "vf_share_layers": False}).debugging(seed=seed)


def like_zoo(seed: int = 0, steps: int = 32) -> PPOConfig:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    config.training(lr=1e-3, gamma=0.98, lambda_=0.8, num_epochs=20, clip_param=0.2, use_kl_loss=False)
    config.training(train_batch_size_per_learner=8 * steps, minibatch_size=256, vf_clip_param=1e9, grad_clip=0.5)
    return config.rl_module(model_config={"fcnet_hiddens": [64, 64]}).debugging(seed=seed)


def dqn_zoo(seconds: float) -> float:
    config = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=0, rollout_fragment_length=256)
    config.training(lr=2.3e-3, train_batch_size_per_learner=64, num_steps_sampled_before_learning_starts=1000)
    config.training(training_intensity=64 * 128 / 256, target_network_update_freq=10, dueling=False, double_q=False)
    buffer = {"type": "EpisodeReplayBuffer", "capacity": 100_000}
    config.training(replay_buffer_config=buffer, hiddens=[], grad_clip=10.0)
    config.rl_module(model_config={"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"}).debugging(seed=0)
    algorithm = config.build_algo()
    for _ in range(4):
        algorithm.train()
    return of_steps(algorithm, seconds)


def until_475(_: float) -> float:
    """Seconds until the mean return of 100 episodes is 475: the median of ten seeds."""
    took = []
    for seed in range(10):
        algorithm = like_zoo(seed, steps=128).build_algo()
        begun = time.perf_counter()
        while algorithm.train()["env_runners"]["episode_return_mean"] < 475 and time.perf_counter() - begun < 60:
            pass
        took.append(time.perf_counter() - begun)
        algorithm.stop()
    return statistics.median(took)


def env_alone(seconds: float) -> float:
    """Steps per second of CartPole alone on one core, driven by chance where it is."""
    vector = NativeVectorEnv("CartPole-v1", 64)
    vector.reset(seed=1)
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        vector.drive(10_000, seed=1)
        steps += 10_000 * 64
    return steps / (time.perf_counter() - begun)


def bridge(seconds: float) -> float:
    """The same with a call from Python for each step of all."""
    count = 4096
    vector = NativeVectorEnv("CartPole-v1", count, copy=False)
    vector.reset(seed=1)
    chance = np.random.default_rng(1)
    # As where it is driven: whoever always does the same falls sooner, and begins anew more often.
    actions = [chance.integers(0, 2, count).astype(np.float32) for _ in range(61)]
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        for chosen in actions:
            vector.step(chosen)
        steps += count * len(actions)
    return steps / (time.perf_counter() - begun)


def sgemm(seconds: float) -> float:
    """Multiplications and additions per second of numpy's product of two large matrices, on all cores."""
    size = 1_024
    left, right = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        left @ right
        done += 2 * size**3
    return done / (time.perf_counter() - begun)


def python_cartpole(_: Any) -> Any:
    import gymnasium

    return gymnasium.make("CartPole-v1")


CASES = {
    "ppo_64": lambda seconds: of_steps(like_rllib([64, 64]).build_algo(), seconds),
    "ppo_256": lambda seconds: of_steps(like_rllib([256, 256]).build_algo(), seconds),
    "ppo_zoo": lambda seconds: of_steps(like_zoo().build_algo(), seconds),
    "ppo_python": lambda seconds: of_steps(like_rllib([64, 64], "python-cartpole").build_algo(), seconds),
    "until_475": until_475,
    "dqn_zoo": dqn_zoo,
    "env": env_alone,
    "bridge": bridge,
    "sgemm": sgemm,
}

if __name__ == "__main__":
    register_env("python-cartpole", python_cartpole)
    print(json.dumps({"figure": CASES[sys.argv[1]](float(sys.argv[2]))}))
