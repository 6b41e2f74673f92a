"""DQN under its older path."""

from eagleray.rllib.algorithms.dqn import DEFAULT_CONFIG, DQN, DQNConfig, DQNTrainer

__all__ = ["DEFAULT_CONFIG", "DQN", "DQNConfig", "DQNTrainer"]
