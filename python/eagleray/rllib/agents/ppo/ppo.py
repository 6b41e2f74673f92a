"""PPO under its older path."""

from eagleray.rllib.algorithms.ppo import DEFAULT_CONFIG, PPO, PPOConfig, PPOTrainer

__all__ = ["DEFAULT_CONFIG", "PPO", "PPOConfig", "PPOTrainer"]
