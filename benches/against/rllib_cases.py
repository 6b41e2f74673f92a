"""One case of `rl.py` on RLlib: `rllib_cases.py CASE SECONDS`. Prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def main(case: str, seconds: float) -> float:
    hiddens = [256, 256] if case == "ppo_256" else [64, 64]
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    config.training(lr=3e-4, lambda_=0.95, train_batch_size_per_learner=4000, minibatch_size=128, num_epochs=10)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=hiddens, vf_share_layers=False)).debugging(seed=0)
    algorithm = config.build_algo()
    before = algorithm.train()["num_env_steps_sampled_lifetime"]
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        result = algorithm.train()
        if case == "until_475" and result["env_runners"]["episode_return_mean"] >= 475:
            return time.perf_counter() - begun
    return (result["num_env_steps_sampled_lifetime"] - before) / (time.perf_counter() - begun)


if __name__ == "__main__":
    print(json.dumps({"figure": main(sys.argv[1], float(sys.argv[2]))}))
