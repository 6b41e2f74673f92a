"""Algorithms by name under Tune, and the programs of both eras that do so."""

import os

import gymnasium as gym
import pytest
from gymnasium.spaces import Box, Discrete

import eagleray as ray
from eagleray import tune
from eagleray.rllib._engine import ENGINE_VARIABLE
from eagleray.rllib.algorithms import PPOConfig
from eagleray.tune.registry import register_env


@pytest.fixture(scope="module", autouse=True)
def engine_everywhere(tmp_path_factory):
    ray.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, "tests.python.rllib.fake_engine:FakeEngine")
        patch.setenv("TUNE_RESULT_DIR", str(tmp_path_factory.mktemp("results")))
        ray.init(num_cpus=2)
        yield
        ray.shutdown()


class Corridor(gym.Env):
    """Of the older era in all its ways."""

    def __init__(self, config):
        self.end = config["corridor_length"]
        self.action_space = Discrete(2)
        self.observation_space = Box(0.0, self.end, shape=(1,))

    def reset(self):
        self.at = 0
        return [self.at]

    def step(self, action):
        if action == 0 and self.at > 0:
            self.at -= 1
        elif action == 1:
            self.at += 1
        done = self.at >= self.end
        return [self.at], 1 if done else 0, done, {}


def test_an_algorithm_by_name_with_runners_of_its_own():
    analysis = tune.run(
        "PPO",
        stop={"training_iteration": 2},
        metric="episode_reward_mean",
        mode="max",
        config={"env": Corridor, "num_workers": 2, "env_config": {"corridor_length": 5}, "train_batch_size": 400},
        verbose=0,
    )
    last = analysis.best_result
    assert last["training_iteration"] == 2
    assert last["episode_reward_mean"] == 1.0
    assert last["timesteps_total"] == 800
    assert last["num_healthy_workers"] == 2


def test_a_registered_environment_goes_with_the_trial():
    register_env("corridor-of-3", lambda config: Corridor({"corridor_length": 3}))
    grid = tune.Tuner(
        "PPO",
        param_space=PPOConfig()
        .environment("corridor-of-3")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=200, lr=tune.grid_search([0.0, 0.01])),
        run_config=tune.RunConfig(stop={"env_runners/num_episodes_lifetime": 1}, verbose=0),
    ).fit()
    assert grid.num_errors == 0
    assert sorted(result.config["lr"] for result in grid) == [0.0, 0.01]
    assert all(result.metrics["env_runners"]["episode_return_mean"] == 1.0 for result in grid)


def test_trials_are_saved_and_gone_on_from():
    config = {"env": "Signs-v0", "num_workers": 0, "train_batch_size": 200, "seed": 1}
    first = tune.run("PPO", stop={"training_iteration": 2}, config=config, checkpoint_at_end=True, verbose=0)
    folder = first.trials[0].checkpoint.path
    assert os.path.exists(os.path.join(folder, "metadata.json"))
    second = tune.run("PPO", stop={"training_iteration": 3}, config=config, restore=folder, verbose=0)
    assert second.trials[0].last_result["timesteps_total"] == 600


def test_unknown_names_and_settings_are_told_at_once():
    with pytest.raises(tune.TuneError, match="Did you mean 'PPO'"):
        tune.run("PPOO", config={}, verbose=0)
    with pytest.raises(ValueError, match="Did you mean 'num_workers'"):
        tune.run("PPO", config={"env": "Signs-v0", "num_wokers": 0}, verbose=0)


def test_older_nested_names_stop_a_trial():
    config = {"env": "Signs-v0", "num_workers": 0, "train_batch_size": 200, "timesteps_per_iteration": 600}
    stop = {"sampler_results/episode_reward_mean": 1.0, "training_iteration": 3}
    last = tune.run("PPO", stop=stop, config=config, verbose=0).trials[0].last_result
    assert last["training_iteration"] == 1
    assert last["sampler_results"]["episode_reward_mean"] == last["episode_reward_mean"] >= 1.0
    assert last["num_training_step_calls_per_iteration"] == 3
    assert last["num_steps_trained_this_iter"] == 600
    assert 0 < last["perf"]["ram_util_percent"] < 100
