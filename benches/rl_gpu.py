"""PPO with a torch model that learns on the processor and on a GPU: `PYTHONPATH=python python-with-torch benches/rl_gpu.py`.

Prints the steps per second of whole iterations and of their updates alone. Needs torch, gymnasium, numpy and an NVIDIA
device; the pictures are as large as Atari's, four frames, and their content is chance: what is measured is the work.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import eagleray as ray
from eagleray.rllib.algorithms.ppo import PPOConfig

ITERATIONS = 4
BATCH, MINIBATCH, EPOCHS = 4096, 512, 4


class Pictures(gym.Env[Any, Any]):
    """Frames of chance, made beforehand; an episode has a hundred steps."""

    observation_space = gym.spaces.Box(0.0, 1.0, (84, 84, 4), np.float32)
    action_space = gym.spaces.Discrete(6)

    def __init__(self, _config: Any = None) -> None:
        self._frames = np.random.default_rng(0).random((16, 84, 84, 4), np.float32)
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._frames[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return self._frames[self._step % 16], float(action == self._step % 6), False, self._step == 100, {}


class Looks(nn.Module):
    """Three layers of filters and one of 512, as DQN's authors had them."""

    def __init__(self, _observed: Any, _acted: Any, outputs: int) -> None:
        super().__init__()
        filters = [
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
        ]
        self.body = nn.Sequential(*filters, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU())
        self.chooses, self.values = nn.Linear(512, outputs), nn.Linear(512, 1)

    def forward(self, observed: Any) -> tuple[Any, Any]:
        features = self.body(observed.reshape(-1, 84, 84, 4).permute(0, 3, 1, 2))
        return self.chooses(features), self.values(features)


class Dense(nn.Module):
    """Two layers of the same size."""

    def __init__(self, observed: Any, _acted: Any, outputs: int, size: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observed.shape[0], size), nn.Tanh(), nn.Linear(size, size), nn.Tanh())
        self.chooses, self.values = nn.Linear(size, outputs), nn.Linear(size, 1)

    def forward(self, observed: Any) -> tuple[Any, Any]:
        features = self.body(observed)
        return self.chooses(features), self.values(features)


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "CartPole, 64x64": ("CartPole-v1", {"custom_model": Dense, "custom_model_config": {"size": 64}}),
    "CartPole, 2048x2048": ("CartPole-v1", {"custom_model": Dense, "custom_model_config": {"size": 2048}}),
    "pictures of 84x84x4, filters": (Pictures, {"custom_model": Looks}),
}


def measured(env: Any, model: dict[str, Any], gpus: int) -> tuple[float, float]:
    """Steps per second of whole iterations, and of what they learn alone."""
    config = PPOConfig().environment(env).framework("torch").debugging(seed=0).learners(num_gpus_per_learner=gpus)
    config.env_runners(num_env_runners=4, num_envs_per_env_runner=8)
    config.training(train_batch_size_per_learner=BATCH, minibatch_size=MINIBATCH, num_epochs=EPOCHS, model=model)
    algo = config.build_algo()
    try:
        algo.train()
        whole, learned = [], []
        for _ in range(ITERATIONS):
            algo.timers.seconds.clear()  # they are means over iterations
            begun = time.perf_counter()
            result = algo.train()
            whole.append(BATCH / (time.perf_counter() - begun))
            learned.append(BATCH / result["timers"]["learner_update_timer"])
    finally:
        algo.stop()
    return statistics.median(whole), statistics.median(learned)


def main() -> None:
    ray.init()
    print(f"{torch.cuda.get_device_name()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(f"PPO, batch {BATCH}, minibatch {MINIBATCH}, {EPOCHS} epochs; steps/s, whole iterations and updates alone")
    for name, (env, model) in CASES.items():
        processor, device = measured(env, model, 0), measured(env, model, 1)
        print(
            f"{name:30} processor {processor[0]:>9,.0f} {processor[1]:>9,.0f}   GPU {device[0]:>9,.0f} {device[1]:>9,.0f}"
            f"   {device[0] / processor[0]:.2f} x {device[1] / processor[1]:.2f} x",
            flush=True,
        )


if __name__ == "__main__":
    main()
