"""A trained policy without its algorithm: as a policy of old, and as a module."""

import os
import tempfile

import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.policy.policy import Policy

ray.init(num_cpus=2)
config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
algorithm = config.training(train_batch_size=200, minibatch_size=100, num_epochs=1).build_algo()
algorithm.train()
folder = algorithm.save_to_path(tempfile.mkdtemp())
observation = np.zeros(4, np.float32)
expected = algorithm.compute_single_action(observation, explore=False)
policy = Policy.from_checkpoint(folder)
policy = policy["default_policy"] if isinstance(policy, dict) else policy
assert policy.compute_single_action(observation, explore=False)[0] == expected
module = RLModule.from_checkpoint(os.path.join(folder, "learner_group", "learner", "rl_module", "default_policy"))
logits = np.asarray(module.forward_inference({"obs": observation[None]})["action_dist_inputs"])
assert int(logits[0].argmax()) == expected
seen = algorithm.env_runner_group.foreach_env_runner(lambda runner: runner.config.train_batch_size)
assert seen == [200]
algorithm.stop()
print("ok")
