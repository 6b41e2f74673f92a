"""Callbacks see episodes, and log numbers of their own."""

import ray
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

ray.init(num_cpus=2)


class Angles(RLlibCallback):
    def on_episode_step(self, *, episode, metrics_logger=None, **kwargs):
        episode.custom_data.setdefault("angles", []).append(abs(episode.get_observations(-1)[2]))

    def on_episode_end(self, *, episode, metrics_logger=None, **kwargs):
        angles = episode.custom_data["angles"]
        metrics_logger.log_value("largest_angle", max(angles), reduce="max")

    def on_train_result(self, *, algorithm, result, **kwargs):
        result["own_number"] = algorithm.iteration


class Older(DefaultCallbacks):
    def on_episode_end(self, *, worker, base_env, policies, episode, env_index=None, **kwargs):
        episode.custom_metrics["length"] = episode.length


config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
config.training(train_batch_size=300, minibatch_size=100, num_epochs=1)
algorithm = config.copy(copy_frozen=False).callbacks(Angles).build_algo()
result = algorithm.train()
assert 0 < result["env_runners"]["largest_angle"] < 1
assert result["own_number"] in (0, 1)
algorithm.stop()
algorithm = config.copy(copy_frozen=False).callbacks(Older).build_algo()
assert algorithm.train()["custom_metrics"]["length_mean"] > 5
algorithm.stop()
print("ok")
