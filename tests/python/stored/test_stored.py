"""What an earlier version has written is read by this one, although modules have other names today. `make.py` wrote the archives."""

import importlib
import json
import pickle
import tarfile
from pathlib import Path

import pytest

import eagleray as ray
from eagleray import tune
from eagleray._common.old_names import MOVED
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.core.rl_module import RLModule
from eagleray.util.placement_group import PlacementGroup

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.gz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def stored(request, tmp_path):
    """The archive's files, somewhere else than where they were written."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def load(stored, name):
    return pickle.loads((stored / f"{name}.pickle").read_bytes())


def test_ids_placement_groups_and_handles_of_an_earlier_version_load(stored, shared_ray):
    kinds = (ray.JobID, ray.TaskID, ray.ActorID, ray.NodeID, ray.WorkerID)
    assert load(stored, "ids") == [kind(b"7" * kind.LENGTH) for kind in kinds]
    group = load(stored, "group")
    assert isinstance(group, PlacementGroup)
    assert group.bundle_specs == [{"CPU": 1}]
    handle = load(stored, "handle")
    assert isinstance(handle, ray.actor.ActorHandle)
    assert handle._meta is load(stored, "meta")
    assert handle._meta.class_name == "Counter"
    assert len(list(load(stored, "generator"))) == 1


def test_an_error_of_an_earlier_version_loads_with_its_cause(stored):
    error = load(stored, "error")
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert type(error.cause).__name__ == "Strict"
    assert (error.cause.where, error.cause.args) == ("task", ("task: 7",))


def test_functions_of_ours_that_an_earlier_version_pickled_are_todays(stored):
    names = ("available_resources", "cancel", "init", "nodes")
    assert load(stored, "functions")[:4] == [getattr(ray, name) for name in names]
    assert load(stored, "closure")()[:4] == list(names)
    assert load(stored, "captured")() == ("point", 3)


def test_remote_functions_and_classes_of_an_earlier_version_run(stored, shared_ray):
    actor = load(stored, "remote class").remote()
    assert ray.get(actor.count.remote()) == 1
    with pytest.raises(ray.exceptions.RayTaskError, match="task: 7"):
        ray.get(load(stored, "remote function").remote())


def test_an_experiment_of_an_earlier_version_goes_on(stored, shared_ray):
    def trainable(config):
        tune.report({"loss": config["x"], "job": config["job"].hex()})

    failed = json.loads((stored / "about.json").read_text())["failed"]
    assert len(tune.ExperimentAnalysis(str(stored / "experiment")).trials) == len(failed)
    tuner = tune.Tuner.restore(str(stored / "experiment"), trainable=trainable, restart_errored=True)
    was = tuner.get_results()
    assert [result.error is not None for result in was] == failed
    assert any(failed)
    assert "step: 1" in str(was.errors[0])
    results = tuner.fit()
    assert len(results) == len(failed)
    assert not results.errors
    assert {result.metrics["job"] for result in results} == {b"1234".hex()}


def test_a_checkpoint_of_an_earlier_version_is_trained_on(stored):
    algorithm = Algorithm.from_checkpoint(str(stored / "checkpoint"))
    assert algorithm.iteration == 1
    result = algorithm.train()
    assert result["training_iteration"] == 2
    algorithm.stop()
    module = RLModule.from_checkpoint(str(stored / "checkpoint/learner_group/learner/rl_module/default_policy"))
    assert module is not None


@pytest.mark.parametrize("name", MOVED)
def test_a_module_is_the_same_under_its_old_name(name):
    assert importlib.import_module(f"eagleray.{name}") is importlib.import_module(f"eagleray.{MOVED[name]}")
    assert importlib.import_module(f"eagleray.{name}").__spec__.name == f"eagleray.{MOVED[name]}"
