"""Trains PPO until it balances CartPole's pole, uses the policy, and draws how it learned.

python examples/ppo_cartpole.py [PICTURE]    the learning curve is written there, if matplotlib is installed
"""

from __future__ import annotations

import sys
import time
from typing import Any

from eagleray.rllib.algorithms.ppo import PPOConfig

#: Mean return of the last 100 episodes; the environment ends at 500.
GOAL = 475.0
ITERATIONS_MAX = 400


def train() -> tuple[Any, list[dict[str, Any]]]:
    """Train until the goal is reached; returns the algorithm and what each iteration said."""
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=1e-3, gamma=0.98, lambda_=0.8, train_batch_size_per_learner=1024, minibatch_size=256, num_epochs=20
        )
        .training(use_kl_loss=False, clip_param=0.2, vf_clip_param=1e9, grad_clip=0.5)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .debugging(seed=7)
    )
    algorithm = config.build_algo()
    begun, results = time.perf_counter(), []
    for iteration in range(1, ITERATIONS_MAX + 1):
        result = algorithm.train()
        results.append(result)
        mean = result["env_runners"]["episode_return_mean"]
        if iteration % 10 == 0 or mean >= GOAL:
            steps = result["num_env_steps_sampled_lifetime"]
            print(f"  {time.perf_counter() - begun:5.1f} s  {steps:>7,} steps  mean return {mean:5.1f}")
        if mean >= GOAL:
            break
    return algorithm, results


def balance(algorithm: Any) -> float:
    """Let the trained policy act in an environment of its own, without chance; returns what it earned."""
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    observed, _ = env.reset(seed=5)
    earned, over = 0.0, False
    while not over:
        observed, reward, terminated, truncated, _ = env.step(algorithm.compute_single_action(observed, explore=False))
        earned, over = earned + float(reward), terminated or truncated
    return earned


def main(picture: str | None = None) -> None:
    """Train, use, draw."""
    print("PPO on CartPole-v1, 8 environments:")
    algorithm, results = train()
    assert results[-1]["env_runners"]["episode_return_mean"] >= GOAL, "not learned"
    print(f"  one episode by its best actions: {balance(algorithm):.0f} of 500")
    algorithm.stop()
    if picture is not None:
        from eagleray.rllib.plots import learning_curve

        learning_curve({"PPO": results}, title="PPO on CartPole-v1", goal=GOAL).savefig(picture)
        print(f"  learning curve: {picture}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
