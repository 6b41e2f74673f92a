"""Algorithms whose runners are on other nodes, and algorithms that train there as trials."""

import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray import tune
from eagleray.cluster_utils import Cluster
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.env import env_runner_group

pytestmark = [pytest.mark.one_node("it brings clusters of its own"), pytest.mark.timeout(120)]


@pytest.fixture
def cluster(no_session):
    """A driver whose node has no room, and two nodes."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.away = [made.add_node(num_cpus=1), made.add_node(num_cpus=2)]
        made.connect()
        yield made


def ppo(runners):
    config = PPOConfig().environment("CartPole-v1").training(train_batch_size=200, minibatch_size=100, num_epochs=1)
    return config.env_runners(num_env_runners=runners).build_algo()


def places(algo):
    def place(_):
        return ray.get_runtime_context().get_node_id()

    return algo.env_runner_group.foreach_env_runner(place, local_env_runner=False)


def test_runners_of_a_node_that_dies_are_made_again_where_there_is_room(cluster):
    dies, stays = cluster.away
    algo = ppo(2)
    algo.train()
    first = places(algo)
    assert dies.node_id in first
    cluster.remove_node(dies, allow_graceful=False)
    before = algo.train()["num_env_steps_sampled_lifetime"]
    assert places(algo) == [stays.node_id] * 2
    result = algo.train()
    assert result["num_env_steps_sampled_lifetime"] == before + 200
    assert result["num_healthy_workers"] == 2
    assert algo.env_runner_group.num_restarts == first.count(dies.node_id)
    algo.stop()


def test_others_go_on_without_runners_that_find_no_room_until_there_is_some(cluster, monkeypatch, caplog):
    monkeypatch.setattr(env_runner_group, "_START_S", 0.5)
    dies, stays = cluster.away
    algo = ppo(3)
    algo.train()
    cluster.remove_node(dies, allow_graceful=False)
    algo.train()
    assert places(algo) == [stays.node_id] * 2
    assert "the others go on without it" in caplog.text
    again = cluster.add_node(num_cpus=1)
    deadline = time.monotonic() + 30
    while len(found := places(algo)) < 3:
        assert time.monotonic() < deadline, found
        algo.train()
    assert sorted(found) == sorted([again.node_id, stays.node_id, stays.node_id])
    weights = algo.env_runner_group.foreach_env_runner(lambda runner: runner.get_weights(), local_env_runner=False)
    algo.stop()
    for name, values in weights[0]["default_policy"].items():
        assert all((other["default_policy"][name] == values).all() for other in weights)


def test_a_trial_of_an_algorithm_goes_on_from_its_checkpoint_when_its_node_dies(storage, cluster):
    class Killer(tune.Callback):
        nodes = ()

        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["training_iteration"] == 3 and not self.nodes:
                node = next(node for node in cluster.away if is_below(result["pid"], node.pid))
                cluster.remove_node(node, allow_graceful=False)
                self.nodes = (node,)

    config = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100)
    results = tune.Tuner(
        "DQN",
        param_space=config,
        run_config=tune.RunConfig(
            name="dqn",
            storage_path=str(storage),
            stop={"training_iteration": 6},
            verbose=0,
            callbacks=[Killer()],
            failure_config=tune.FailureConfig(max_failures=1),
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
        ),
    ).fit()
    (result,) = results
    assert result.error is None
    assert result.metrics["training_iteration"] == 6
    assert result.metrics["iterations_since_restore"] == 4
    assert (Path(result.path) / "error.txt").exists()
    assert [path.name for path in Path(result.path).glob("checkpoint_*")]


def is_below(pid, other):
    """Whether a process is one that another has started, or one of theirs has."""
    while pid > 1:
        if pid == other:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False
