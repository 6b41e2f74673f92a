"""Samples in files, and learning from them without an environment."""

import tempfile

import ray
from ray.rllib.algorithms.dqn import DQNConfig

ray.init(num_cpus=2)
folder = tempfile.mkdtemp()
config = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
config.training(num_steps_sampled_before_learning_starts=100, train_batch_size=32)
writer = config.copy(copy_frozen=False).offline_data(output=folder).build_algo()
writer.train()
writer.stop()
reader = config.copy(copy_frozen=False).offline_data(input_=folder).build_algo()
result = reader.train()
assert result["training_iteration"] == 1
reader.stop()
print("ok")
