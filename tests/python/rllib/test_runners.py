"""Runners as actors: sampling side by side, and what happens when one of them fails."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import eagleray as ray
from eagleray.exceptions import ActorDiedError
from eagleray.rllib._engine import ENGINE_VARIABLE
from eagleray.rllib.algorithms import A2CConfig, ESConfig, IMPALAConfig, PPOConfig
from eagleray.rllib.env import _starting, env_runner_group
from eagleray.rllib.utils.error import EnvError
from eagleray.tune.registry import register_env


@pytest.fixture(scope="module", autouse=True)
def engine_everywhere():
    """The variable is set before the session begins, so that its workers have it too."""
    ray.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE_VARIABLE, "tests.python.rllib.fake_engine:FakeEngine")
        ray.init(num_cpus=2)
        yield
        ray.shutdown()


class Faulty(gym.Env):
    """Ten steps an episode; runner 1 breaks at a given step, as often as there is no sign that it did."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, config):
        self.config, self.steps = config, 0
        if config.worker_index == 1 and config.get("how") == "hang at once":
            mark = f"{config['folder']}/hung"
            with open(mark, "a") as file:
                file.write("x")
            if os.path.getsize(mark) <= config["times"]:
                time.sleep(1000)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += 1
        self.steps += 1
        if self.config.worker_index == 1 and self.steps == self.config.get("breaks_at"):
            mark = f"{self.config['folder']}/broken"
            with open(mark, "a") as file:
                file.write("x")
            if os.path.getsize(mark) <= self.config.get("times", 1):
                if self.config["how"] == "exit":
                    os._exit(1)
                if self.config["how"] == "hang":
                    time.sleep(1000)
                raise RuntimeError("the environment broke")
        return np.zeros(1, np.float32), 1.0, self.at >= 10, False, {}


class Holder:
    def ready(self):
        return True


def config(**env_config):
    made = PPOConfig().environment(Faulty, env_config=env_config).env_runners(num_env_runners=2)
    return made.training(train_batch_size=100, minibatch_size=100)


@pytest.fixture
def built():
    """Builds algorithms, and stops them afterwards."""
    algorithms = []

    def build(given):
        algorithms.append(given.build_algo())
        return algorithms[-1]

    yield build
    for algorithm in algorithms:
        algorithm.stop()


def held_by(runner):
    return runner.policies["default_policy"].weights.sum()


def test_runners_sample_side_by_side_with_the_same_weights(built):
    algorithm = built(config())
    result = algorithm.train()
    assert result["timesteps_this_iter"] == 100
    assert result["episode_len_mean"] == 10
    assert result["fault_tolerance"]["num_healthy_workers"] == 2
    assert algorithm.workers.foreach_worker(lambda runner: runner.worker_index) == [0, 1, 2]
    assert algorithm.workers.foreach_env(lambda env: env.config.num_workers) == [[], [2], [2]]
    algorithm.set_weights({"default_policy": {"w": np.ones((2, 2))}})
    held = algorithm.workers.foreach_env_runner(held_by, local_env_runner=False)
    assert held == [4.0, 4.0]


# proves: Y4a
@pytest.mark.parametrize("how", ["raise", "exit"])
def test_a_runner_that_fails_is_left_out_if_that_is_wanted(built, tmp_path, how):
    made = config(how=how, breaks_at=5, folder=str(tmp_path))
    made.fault_tolerance(ignore_env_runner_failures=True, restart_failed_env_runners=False)
    algorithm = built(made)
    result = algorithm.train()
    assert result["num_healthy_workers"] == 1
    assert result["timesteps_this_iter"] >= 100, "the other one made up for it"
    assert algorithm.workers.healthy_worker_ids() == [2]
    assert algorithm.train()["num_remote_worker_restarts"] == 0


# proves: Y4b
@pytest.mark.parametrize("how", ["raise", "exit"])
def test_a_runner_that_fails_is_replaced_and_has_the_weights_again(built, tmp_path, how):
    recreated = []
    made = config(how=how, breaks_at=80, folder=str(tmp_path))
    made.callbacks(on_env_runners_recreated=lambda env_runner_indices, **kw: recreated.append(env_runner_indices))
    algorithm = built(made)
    algorithm.set_weights({"default_policy": {"w": np.full((2, 2), 3.0)}})
    assert algorithm.train()["num_remote_worker_restarts"] == 0
    algorithm.set_weights({"default_policy": {"w": np.full((2, 2), 5.0)}})
    asked = algorithm.env_runner_group.sample(num_timesteps=60)
    assert len(asked) == 1, "what the failed one had is lost"
    assert recreated == [[1]]
    held = algorithm.workers.foreach_worker(held_by, local_worker=False)
    assert held == [20.0, 20.0]
    result = algorithm.train()
    assert result["fault_tolerance"]["num_remote_worker_restarts"] == 1
    assert result["num_healthy_workers"] == 2


# proves: Y4c
def test_a_failure_is_raised_if_nothing_else_is_wanted(built, tmp_path):
    made = config(how="raise", breaks_at=5, folder=str(tmp_path))
    algorithm = built(made.fault_tolerance(restart_failed_env_runners=False))
    with pytest.raises(RuntimeError, match="the environment broke"):
        algorithm.train()
    algorithm.stop()
    made = config(how="exit", breaks_at=5, folder=str(tmp_path), times=9)
    algorithm = built(made.fault_tolerance(restart_failed_env_runners=False))
    with pytest.raises(ActorDiedError, match="exit code 1"):
        algorithm.train()


@pytest.mark.parametrize("kind", [PPOConfig, IMPALAConfig])
def test_a_runner_that_hangs_is_waited_for_and_then_replaced(built, tmp_path, kind):
    made = kind().environment(Faulty, env_config={"how": "hang", "breaks_at": 5, "folder": str(tmp_path)})
    made.env_runners(num_env_runners=1, sample_timeout_s=1.0).reporting(min_time_s_per_iteration=0)
    result = built(made.training(train_batch_size=200)).train()
    assert result["num_remote_worker_restarts"] == 1
    assert result["timesteps_this_iter"] >= 200


# proves: Y4f
@pytest.mark.parametrize("runners", [1, 2], ids=["nobody samples", "another one samples"])
def test_an_environment_that_always_hangs_is_an_error_after_three_runners(built, tmp_path, runners):
    made = config(how="hang", breaks_at=5, folder=str(tmp_path), times=100)
    algorithm = built(made.env_runners(num_env_runners=runners, sample_timeout_s=0.5))
    said = "runner 1 gave no sample of the environment Faulty in 1 s, and nor did those in its place: 3 in a row"
    with pytest.raises(EnvError, match=said):
        for _ in range(9):
            algorithm.train()
    assert algorithm.env_runner_group.num_restarts == 2


@pytest.fixture
def soon(monkeypatch):
    """Runners are hung that are not made in two seconds."""
    monkeypatch.setattr(env_runner_group, "_START_S", 1.0)
    monkeypatch.setattr(env_runner_group, "_SOON_S", 0.0)


# proves: Y4f
@pytest.mark.parametrize("is_awaited", [True, False], ids=["awaited", "not awaited"])
def test_an_environment_that_hangs_in_its_constructor_is_an_error_after_three_runners(soon, tmp_path, is_awaited):
    # There was a word about it after ten seconds, and then nothing for ever.
    made = config(how="hang at once", folder=str(tmp_path), times=100)
    made.env_runners(num_env_runners=1, sample_timeout_s=0.5, validate_env_runners_after_construction=is_awaited)
    said = "runner 1 gave no sample of the environment Faulty in 2 s, and nor did those in its place: 3 in a row"
    with pytest.raises(EnvError, match=said):
        made.build_algo()
    assert (tmp_path / "hung").read_text().startswith("x")


# proves: Y4b
def test_a_runner_that_hangs_once_in_its_constructor_is_replaced(soon, built, tmp_path):
    made = config(how="hang at once", folder=str(tmp_path), times=1)
    algorithm = built(made.env_runners(sample_timeout_s=2.0))
    assert algorithm.env_runner_group.num_restarts == 1
    assert algorithm.env_runner_group.num_healthy_remote_workers() == 2


def test_runners_that_wait_for_cores_do_not_hang(soon, built, monkeypatch, wait_until):
    # Whoever holds the cores may do so for longer than an environment may take.
    looked = []

    def has_process(actor):
        looked.append(actor)
        return _starting.has_process(actor)

    monkeypatch.setattr(env_runner_group, "has_process", has_process)
    holder = ray.remote(Holder).options(num_cpus=2).remote()
    ray.get(holder.ready.remote())
    with ThreadPoolExecutor() as pool:
        made = pool.submit(built, config().env_runners(num_env_runners=1, sample_timeout_s=2.0))
        try:
            wait_until(lambda: len(looked) >= 3)
            assert not made.done()
        finally:
            ray.kill(holder)
        assert made.result(timeout=30).env_runner_group.num_restarts == 0


# proves: Y4e
def test_replacing_ends_where_it_is_told_to(built, tmp_path):
    made = config(how="raise", breaks_at=5, folder=str(tmp_path), times=100)
    algorithm = built(made.fault_tolerance(max_num_env_runner_restarts=2))
    with pytest.raises(RuntimeError, match="the environment broke"):
        algorithm.train()
        algorithm.train()
        algorithm.train()
    assert algorithm.env_runner_group.num_restarts == 2


# proves: Y4d
def test_an_environment_that_raises_is_made_anew_without_losing_its_runner(built, tmp_path):
    made = config(how="raise", breaks_at=5, folder=str(tmp_path)).env_runners(num_envs_per_env_runner=2)
    algorithm = built(made.fault_tolerance(restart_failed_sub_environments=True))
    result = algorithm.train()
    assert result["fault_tolerance"]["num_env_restarts"] == 1
    assert result["num_remote_worker_restarts"] == 0
    assert result["timesteps_this_iter"] == 100


def test_an_environment_that_cannot_be_made_says_so_at_once():
    def broken(config):
        raise ValueError("no such file")

    register_env("broken-one", broken)
    with pytest.raises(Exception, match="no such file"):
        PPOConfig().environment("broken-one").build_algo()


# proves: Y2e
def test_evaluation_runs_beside_training(built):
    made = config().env_runners(num_env_runners=1)
    made.evaluation(
        evaluation_interval=1,
        evaluation_num_env_runners=1,
        evaluation_parallel_to_training=True,
        evaluation_duration="auto",
    )
    algorithm = built(made)
    result = algorithm.train()
    assert result["evaluation"]["env_runners"]["num_episodes"] >= 1
    assert result["evaluation"]["episode_len_mean"] == 10
    assert result["timesteps_this_iter"] == 100


def test_asynchronous_runners_are_never_waited_for_all(built):
    made = IMPALAConfig().environment(Faulty).env_runners(num_env_runners=2).reporting(min_time_s_per_iteration=0)
    algorithm = built(made.training(train_batch_size=150))
    for _ in range(3):
        result = algorithm.train()
    assert result["timesteps_this_iter"] >= 150
    assert result["episode_len_mean"] == 10


def test_evolution_shares_candidates_out(built):
    made = ESConfig().environment("Signs-v0").env_runners(num_env_runners=2)
    algorithm = built(made.training(episodes_per_batch=20, train_batch_size=100))
    result = algorithm.train()
    assert result["episodes_this_iter"] == 20


def test_registered_environments_are_known_to_runners(built):
    register_env("faulty-here", lambda config: Faulty(config))
    made = A2CConfig().environment("faulty-here").reporting(min_time_s_per_iteration=0)
    result = built(made).train()
    assert result["timesteps_this_iter"] == 200


def test_more_runners_than_cores_take_turns(built):
    algorithm = built(config().env_runners(num_env_runners=5))
    assert algorithm.train()["num_healthy_workers"] == 5
