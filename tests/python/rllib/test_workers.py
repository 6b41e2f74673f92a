"""Workers as older programs ask for them: the local one is always there, and each has policies with weights and spaces."""

import os
import time

import gymnasium as gym
import numpy as np
import pytest

from eagleray.rllib.agents.ppo import PPOTrainer
from eagleray.rllib.algorithms import PPOConfig


class Phases(gym.Env):
    """Something that programs change from outside."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config=None):
        self.phase = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 1.0, False, False, {}


def trainer(workers, env="CartPole-v1"):
    small = {"train_batch_size": 40, "sgd_minibatch_size": 20, "num_sgd_iter": 1, "model": {"fcnet_hiddens": [8]}}
    return PPOTrainer(env=env, config={"num_workers": workers, "rollout_fragment_length": 20, **small})


def same(one, other):
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_local_worker_has_the_policies_that_learn(workers, request, tmp_path):
    if workers:
        request.getfixturevalue("shared_ray")
    algorithm = trainer(workers)
    local = algorithm.workers.local_worker()
    assert local.worker_index == 0
    before = local.get_policy().get_weights()
    algorithm.train()
    after = local.get_policy().get_weights()
    assert not same(before, after)
    assert same(after, algorithm.get_weights()["default_policy"])
    assert list(local.policy_map) == ["default_policy"] == local.foreach_policy(lambda policy, name: name)
    assert same(local.get_weights()["default_policy"], after)
    assert local.get_policies_to_train() == {"default_policy"}
    changed = {name: array + 1 for name, array in after.items()}
    local.set_weights({"default_policy": changed})
    assert same(algorithm.get_policy().get_weights(), changed)
    # Runners act by them too.
    held = algorithm.workers.foreach_worker(lambda worker: worker.get_policy().get_weights())
    assert len(held) == 1 + workers
    assert all(same(one, changed) for one in held)
    assert algorithm.env_runner is not None
    # A checkpoint has the runner's state only where there is one.
    other = trainer(workers)
    other.restore(algorithm.save(str(tmp_path)).path)
    assert same(other.workers.local_worker().get_policy().get_weights(), changed)
    other.stop()
    algorithm.stop()


@pytest.mark.parametrize("workers", [0, 1])
def test_policies_know_their_spaces_where_environments_are_built_in(workers, request):
    if workers:
        request.getfixturevalue("shared_ray")
    algorithm = trainer(workers)
    policy = algorithm.get_policy()
    assert policy.action_space == gym.spaces.Discrete(2)
    assert policy.observation_space.shape == (4,)
    assert policy.compute_single_action(policy.observation_space.sample())[0] in (0, 1)
    algorithm.stop()


def test_a_local_worker_without_environments_says_where_they_are(shared_ray):
    algorithm = trainer(1, Phases)
    local = algorithm.workers.local_worker()
    assert local.env is None
    assert local.foreach_env(lambda env: env.phase) == []
    with pytest.raises(AttributeError, match="foreach_worker"):
        local.sample()
    algorithm.stop()


def test_environments_are_changed_through_their_workers(shared_ray):
    made = PPOConfig().environment(Phases).env_runners(num_env_runners=1, num_envs_per_env_runner=3)
    algorithm = made.training(train_batch_size=60, minibatch_size=30, num_epochs=1).build_algo()

    def set_phase(env):
        env.phase += 5
        return env.phase

    assert algorithm.workers.foreach_worker(lambda worker: worker.foreach_env(set_phase)) == [[], [5, 5, 5]]
    assert algorithm.workers.foreach_env(set_phase) == [[], [10, 10, 10]]
    algorithm.stop()


def test_a_runner_that_is_given_weights_acts_by_them_and_knows_no_other_policy():
    algorithm = trainer(0)
    runner = algorithm.env_runner
    wanted = {name: np.ones_like(array) for name, array in runner.get_weights()["default_policy"].items()}
    runner.get_policy().set_weights(wanted)
    assert same(runner.get_weights()["default_policy"], wanted)
    with pytest.raises(KeyError, match="no policy 'x'"):
        runner.get_policy("x")
    algorithm.stop()


# The local worker was left out: `foreach_worker(...)[0]`, the one that learns in RLlib, was a runner.
@pytest.mark.parametrize("workers", [0, 2])
def test_the_local_worker_is_asked_first(workers, shared_ray):
    algorithm = trainer(workers, Phases)
    group, all_of_them = algorithm.workers, list(range(workers + 1))
    assert group.foreach_worker(lambda worker: worker.worker_index) == all_of_them
    assert group.foreach_env_runner(lambda runner: runner.worker_index) == all_of_them
    assert group.foreach_worker_with_index(lambda worker, index: (worker.worker_index, index)) == [
        (n, n) for n in all_of_them
    ]
    assert group.foreach_worker_with_id(lambda index, worker: (index, worker.worker_index)) == [
        (n, n) for n in all_of_them
    ]
    assert group.foreach_worker(lambda worker: worker.worker_index, local_worker=False) == all_of_them[1:]
    assert group.foreach_env_runner(lambda runner: runner.worker_index, local_env_runner=False) == all_of_them[1:]
    assert group.foreach_policy(lambda policy, name: name) == ["default_policy"] * (workers + 1)
    assert group.foreach_policy_to_train(lambda policy, name: name) == ["default_policy"] * (workers + 1)
    # What the first one is given is what learns.
    changed = {name: np.ones_like(one) for name, one in algorithm.get_policy().get_weights().items()}
    group.foreach_worker(
        lambda worker: worker.get_policy().set_weights(changed) if worker.worker_index == 0 else None,
    )
    assert same(algorithm.get_policy().get_weights(), changed)
    algorithm.stop()


def test_workers_are_asked_by_number_by_name_and_each_otherwise(shared_ray, tmp_path):
    algorithm = trainer(2, Phases)
    group = algorithm.env_runner_group

    def index_and(runner, more=0):
        return runner.worker_index + more

    assert group.foreach_env_runner(index_and, remote_worker_ids=[2], local_env_runner=False) == [2]
    assert group.foreach_env_runner(index_and, remote_worker_ids=[2]) == [0, 2]
    assert group.foreach_env_runner(index_and, kwargs={"more": 10}) == [10, 11, 12]
    assert group.foreach_env_runner(index_and, kwargs=[{"more": 10}, {}, {"more": 20}]) == [10, 1, 22]
    assert group.foreach_env_runner([lambda _: "a", lambda _: "b", lambda _: "c"]) == ["a", "b", "c"]
    assert group.foreach_env_runner("ping", local_env_runner=False) == ["pong", "pong"]
    with pytest.raises(ValueError, match="2 functions for 3 workers"):
        group.foreach_env_runner([print, print])
    contexts = group.foreach_env_with_context(lambda env, context: (env.phase, context.worker_index))
    assert contexts == [[], [(0, 1)], [(0, 2)]]

    def until_there_is_a_sign(runner, sign):
        while runner.worker_index > 0 and not os.path.exists(sign):
            time.sleep(0.01)
        return runner.worker_index

    told = {"sign": str(tmp_path / "sign")}
    assert group.foreach_env_runner(until_there_is_a_sign, kwargs=told, timeout_seconds=0) == [0]
    (tmp_path / "sign").touch()
    assert group.foreach_env_runner(until_there_is_a_sign, kwargs=told) == [0, 1, 2]
    algorithm.stop()
    small = PPOConfig().environment(Phases).env_runners(num_env_runners=1, create_local_env_runner=False)
    algorithm = small.training(train_batch_size=40, minibatch_size=20).build_algo()
    assert algorithm.env_runner_group.foreach_env_runner(index_and) == [1]
    algorithm.stop()
