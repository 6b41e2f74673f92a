"""Algorithms as trainables of Tune, by class and by name."""

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

ray.init(num_cpus=2)
config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
config = config.training(train_batch_size=200, minibatch_size=100, num_epochs=2, lr=tune.grid_search([1e-3, 1e-4]))
results = tune.Tuner(
    "PPO",
    param_space=config,
    run_config=tune.RunConfig(
        verbose=0,
        stop={"training_iteration": 2},
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
    ),
).fit()
assert not results.errors, results.errors
best = results.get_best_result(metric="env_runners/episode_return_mean", mode="max")
assert best.metrics["training_iteration"] == 2
assert best.checkpoint is not None
analysis = tune.run("DQN", config={"env": "CartPole-v1", "num_workers": 0}, stop={"timesteps_total": 100}, verbose=0)
assert analysis.trials[0].last_result["timesteps_total"] >= 100
print("ok")
