"""DQN by all its names."""

from eagleray.rllib.algorithms.dqn.dqn import DQN, DQNConfig

DQNTrainer = DQN
DEFAULT_CONFIG = DQNConfig().to_dict()

__all__ = ["DEFAULT_CONFIG", "DQN", "DQNConfig", "DQNTrainer"]
