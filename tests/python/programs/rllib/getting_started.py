"""An algorithm is configured, built, trained, evaluated, saved, restored and asked what to do."""

import tempfile

import gymnasium as gym
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig

ray.init(num_cpus=2)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=1)
    .training(train_batch_size=400, minibatch_size=100, num_epochs=4, lr=3e-4, gamma=0.98)
    .evaluation(evaluation_num_env_runners=0, evaluation_interval=2, evaluation_duration=3)
    .debugging(seed=1)
)
algorithm = config.build_algo()
for number in range(2):
    result = algorithm.train()
    assert result["training_iteration"] == number + 1
assert result["evaluation"]["env_runners"]["num_episodes"] == 3
assert result["env_runners"]["episode_return_mean"] > 5
folder = algorithm.save_to_path(tempfile.mkdtemp())
weights = algorithm.get_policy().get_weights()
algorithm.stop()

again = Algorithm.from_checkpoint(folder)
assert again.iteration == 2
assert all((again.get_policy().get_weights()[name] == value).all() for name, value in weights.items())
env = gym.make("CartPole-v1")
observation, _ = env.reset(seed=3)
for _ in range(5):
    action = again.compute_single_action(observation, explore=False)
    observation, reward, terminated, truncated, _ = env.step(action)
    assert reward == 1.0
again.stop()
print("ok")
