"""Models of a program's own on an NVIDIA device: `pytest -m gpu tests/python/rllib/torch` where there is one."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.python.rllib.torch.test_models import EAGER, Plain, ppo, short, stubborn, valued

import eagleray as ray
from eagleray import tune
from eagleray.rllib.algorithms.a2c import A2CConfig
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.impala import IMPALAConfig

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.timeout(240),
]

DROPS_OUT = {"custom_model": Plain, "custom_model_config": {"dropout": 0.2}}


@pytest.fixture(scope="module", autouse=True)
def machine():
    # Cores are named and the GPU is not: that it is found is a part of what is seen here.
    ray.init(num_cpus=4)
    yield
    ray.shutdown()


def on_gpu(config):
    return config.learners(num_gpus_per_learner=1)


WAYS = {
    "PPO": lambda: ppo(model={"custom_model": Plain}),
    "PPO, drops out": lambda: ppo(model=DROPS_OUT),
    "PPO, numbers": lambda: ppo("Pendulum-v1", model={"custom_model": Plain}),
    "PPO, filtered": lambda: ppo(model={"custom_model": Plain}).env_runners(observation_filter="MeanStdFilter"),
    "PPO, an actor": lambda: ppo(model={"custom_model": Plain}).env_runners(num_env_runners=1),
    "A2C, RMSprop": lambda: short(A2CConfig()).training(opt_type="rmsprop", model={"custom_model": Plain}),
    "IMPALA": lambda: short(IMPALAConfig()).training(model={"custom_model": Plain}),
    "DQN, stored": lambda: short(DQNConfig()).training(
        model={"custom_model": valued}, n_step=3, store_buffer_in_checkpoints=True, **EAGER
    ),
}


def devices(module):
    return {one.device.type for one in module.parameters()}


def test_the_machine_s_gpus_are_counted():
    assert ray.cluster_resources()["GPU"] == torch.cuda.device_count()


def test_a_task_that_asks_for_one_computes_there():
    @ray.remote(num_gpus=1)
    def multiplied():
        import torch

        one = torch.ones(64, 64, device="cuda")
        return ray.get_gpu_ids(), float((one @ one).sum())

    used, found = ray.get(multiplied.remote())
    assert len(used) == 1
    assert found == 64.0**3


@pytest.mark.parametrize("way", WAYS)
def test_each_algorithm_learns_there_and_goes_on_from_a_checkpoint(way, tmp_path):
    algo = on_gpu(WAYS[way]()).build_algo()
    try:
        assert devices(algo.learners["default_policy"].network) == {"cuda"}
        assert devices(algo.get_policy().model) == {"cpu"}
        before = algo.get_policy().get_weights()
        result = algo.train()
        assert all(math.isfinite(value) for value in result["learners"]["default_policy"].values())
        after = algo.get_policy().get_weights()
        assert any(np.any(before[name] != after[name]) for name in before)
        path = algo.save_to_path(str(tmp_path))
        algo.train()
        weights = algo.get_policy().get_weights()
    finally:
        algo.stop()
    again = Algorithm.from_checkpoint(path)
    try:
        assert devices(again.learners["default_policy"].network) == {"cuda"}
        again.train()
        others = again.get_policy().get_weights()
    finally:
        again.stop()
    # The order in which a GPU adds is its own, so that the last bits may differ.
    for name in weights:
        assert np.allclose(weights[name], others[name], atol=1e-4), name


@pytest.mark.parametrize("way", [way for way in WAYS if "drops out" not in way])
def test_what_it_learns_is_what_the_processor_would_have_learned(way):
    found = []
    for config in (WAYS[way](), on_gpu(WAYS[way]())):
        algo = config.build_algo()
        try:
            said = algo.train()["learners"]["default_policy"]
            found.append((said, algo.get_policy().get_weights()))
        finally:
            algo.stop()
    (said, weights), (other_said, others) = found
    assert said.keys() == other_said.keys()
    assert math.isclose(said["total_loss"], other_said["total_loss"], rel_tol=1e-2, abs_tol=1e-3)
    for name in weights:
        assert np.allclose(weights[name], others[name], atol=2e-3), name


@pytest.mark.parametrize(("first", "then"), [(1, 0), (0, 1)])
def test_a_checkpoint_made_on_one_kind_goes_on_on_the_other(first, then, tmp_path):
    algo = ppo(model=DROPS_OUT).learners(num_gpus_per_learner=first).build_algo()
    try:
        algo.train()
        weights = algo.get_policy().get_weights()
        path = algo.save_to_path(str(tmp_path))
    finally:
        algo.stop()
    other = ppo(model=DROPS_OUT).learners(num_gpus_per_learner=then).build_algo()
    try:
        other.restore(path)
        restored = other.get_policy().get_weights()
        assert all(np.array_equal(weights[name], restored[name]) for name in weights)
        assert math.isfinite(other.train()["learners"]["default_policy"]["total_loss"])
        assert devices(other.learners["default_policy"].network) == {"cuda" if then else "cpu"}
    finally:
        other.stop()


def test_what_programs_draw_there_themselves_is_not_disturbed():
    drawn = []
    for trains in (False, True):
        torch.cuda.manual_seed(7)
        if trains:
            algo = on_gpu(ppo(model=DROPS_OUT)).build_algo()
            try:
                algo.train()
            finally:
                algo.stop()
        drawn.append(torch.rand(4, device="cuda").tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("lr", "learns"), [(3e-3, True), (0.0, False)])
def test_ppo_balances_the_pole_unless_its_steps_have_no_size(lr, learns):
    model = {"custom_model": Plain, "custom_model_config": {"size": 64}}
    config = ppo(lr=lr, model=model, train_batch_size_per_learner=2048, minibatch_size=128, num_epochs=8)
    algo = on_gpu(config.env_runners(num_envs_per_env_runner=8)).build_algo()
    try:
        best = max(algo.train()["env_runners"]["episode_return_mean"] for _ in range(14 if learns else 4))
    finally:
        algo.stop()
    assert best > 150 if learns else best < 60, best


def test_dqn_finds_the_way_through_a_corridor():
    config = short(DQNConfig(), "Corridor-v0").training(model={"custom_model": stubborn}, lr=3e-3, **EAGER)
    config.training(epsilon=[[0, 1.0], [800, 0.05]], target_network_update_freq=50)
    algo = on_gpu(config.reporting(min_sample_timesteps_per_iteration=1000)).build_algo()
    try:
        lengths = [algo.train()["env_runners"]["episode_len_mean"] for _ in range(3)]
    finally:
        algo.stop()
    assert lengths[-1] < 60, lengths


def test_runners_that_share_one_act_there():
    config = on_gpu(ppo(model={"custom_model": Plain})).learners(num_gpus_per_learner=0.5)
    algo = config.env_runners(num_env_runners=2, num_gpus_per_env_runner=0.25).build_algo()
    try:
        algo.train()

        def where(runner):
            return {one.device.type for one in runner.policies["default_policy"].network.parameters()}

        assert algo.env_runner_group.foreach_env_runner(where, local_env_runner=False) == [{"cuda"}] * 2
        assert algo.compute_single_action(np.zeros(4, np.float32)) in (0, 1)
    finally:
        algo.stop()


def test_trials_of_tune_share_one(tmp_path):
    config = {"env": "CartPole-v1", "num_workers": 0, "framework": "torch", "num_gpus": 0.5, "train_batch_size": 256}
    config |= {"model": {"custom_model": Plain}, "lr": tune.grid_search([1e-3, 1e-4])}
    found = tune.run("PPO", stop={"training_iteration": 2}, config=config, storage_path=str(tmp_path), verbose=0)
    assert [trial.status for trial in found.trials] == ["TERMINATED"] * 2
    # What they held is free again: a whole one can be had.
    assert ray.get(ray.remote(num_gpus=1)(lambda: torch.cuda.is_available()).remote())
