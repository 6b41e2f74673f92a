"""One case of `rl.py` on Stable-Baselines3 with its zoo's settings: `sb3_cases.py CASE SECONDS`. Prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Until(BaseCallback):
    """Ends training after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def _on_training_start(self) -> None:
        self.begun, self.first = time.perf_counter(), self.num_timesteps

    def _on_step(self) -> bool:
        self.took = time.perf_counter() - self.begun
        return self.took < self.seconds


def main(case: str, seconds: float) -> float:
    if case == "ppo_zoo":
        envs = make_vec_env("CartPole-v1", n_envs=8)
        options = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8}
        model = PPO(
            "MlpPolicy", envs, learning_rate=1e-3, clip_range=0.2, ent_coef=0.0, device="cpu", seed=0, **options
        )
    else:
        net = {"net_arch": [256, 256]}
        options = {"train_freq": 256, "gradient_steps": 128, "learning_starts": 1000, "target_update_interval": 10}
        options |= {
            "buffer_size": 100_000,
            "batch_size": 64,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
        }
        model = DQN(
            "MlpPolicy", "CartPole-v1", learning_rate=2.3e-3, policy_kwargs=net, device="cpu", seed=0, **options
        )
    model.learn(2_000, reset_num_timesteps=True)
    until = Until(seconds)
    before = model.num_timesteps
    model.learn(10_000_000, callback=until, reset_num_timesteps=False)
    return (model.num_timesteps - before) / until.took


if __name__ == "__main__":
    print(json.dumps({"figure": main(sys.argv[1], float(sys.argv[2]))}))
