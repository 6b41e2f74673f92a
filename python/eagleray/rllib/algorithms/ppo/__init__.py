"""PPO by all its names."""

from eagleray.rllib.algorithms.ppo.ppo import PPO, PPOConfig

PPOTrainer = PPO
DEFAULT_CONFIG = PPOConfig().to_dict()

__all__ = ["DEFAULT_CONFIG", "PPO", "PPOConfig", "PPOTrainer"]
