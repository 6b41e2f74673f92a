"""Trials on other nodes, of which none sees the folder that the experiment is kept in."""

import os
import shutil
import textwrap
import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray import tune
from eagleray.cluster_utils import Cluster
from eagleray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

pytestmark = pytest.mark.one_node("it brings clusters of its own")

#: Several pieces.
LARGE = 20 << 20


@pytest.fixture
def cluster(no_session, storage):
    """A driver whose node has no room, and two machines with two CPUs each."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.away = [made.add_node(num_cpus=2) for _ in range(2)]
        made.connect()
        yield made


def here():
    return ray.get_runtime_context().get_node_id()


@ray.remote(num_cpus=0)
class Meeting:
    """What trials on several machines know of each other."""

    def __init__(self):
        self.seen = []

    def note(self, what):
        self.seen.append(what)
        return self.seen

    def all(self):
        return self.seen


def meeting_at_home():
    return Meeting.options(scheduling_strategy=NodeAffinitySchedulingStrategy(here(), soft=False)).remote()


def fit(trainable, storage, space=None, *, name="experiment", run=None, **config):
    return tune.Tuner(
        trainable,
        param_space=space or {},
        tune_config=tune.TuneConfig(metric="score", mode="max", **config),
        run_config=tune.RunConfig(name=name, storage_path=str(storage), verbose=0, **(run or {})),
    ).fit()


def count(config, until=4):
    """Counts up, and keeps how far it got in each checkpoint."""
    assert not os.path.exists(config["storage"] + "/experiment")
    first, checkpoint = 0, tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            first = int(Path(folder, "inner", "count").read_text())
    for number in range(first + 1, until + 1):
        folder = Path("draft")
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "count").write_text(str(number))
        (folder / "last").symlink_to("inner/count")
        (folder / "load").write_bytes(bytes(3 << 20))
        tune.report(
            {"score": number, "node": here(), "first": first}, checkpoint=tune.Checkpoint.from_directory(folder)
        )
        shutil.rmtree(folder)
        own = Path(tune.get_checkpoint().path)
        assert (own / "last").read_text() == str(number)
        if meet := config.get("meet"):
            meet(number)


def test_checkpoints_results_and_what_trials_leave_reach_the_driver(cluster, storage):
    meeting = meeting_at_home()

    def train(config):
        ray.get(meeting.note.remote(here()))
        while len(ray.get(meeting.all.remote())) < 4:
            time.sleep(0.01)
        Path("own.txt").write_text(tune.get_context().get_trial_dir())
        print("printed")
        count(config)

    results = fit(
        train, storage, {"n": tune.grid_search([0, 1, 2, 3]), "storage": str(storage)}, run={"log_to_file": True}
    )
    assert not results.errors
    # All four ran at a time, two on each machine.
    where = ray.get(meeting.all.remote())
    assert sorted(where) == sorted(2 * [node.node_id for node in cluster.away])
    for result in results:
        assert result.metrics["score"] == 4
        kept = Path(result.checkpoint.path)
        assert kept.parent == Path(result.path)
        assert storage in kept.parents
        assert os.readlink(kept / "last") == "inner/count"
        assert (kept / "last").read_text() == "4"
        assert sorted(path.name for path in kept.parent.glob("checkpoint_*")) == [
            f"checkpoint_00000{n}" for n in range(4)
        ]
        assert (kept.parent / "stdout").read_text() == "printed\n"
        assert not Path((kept.parent / "own.txt").read_text()).exists()
        assert not list(kept.parent.glob(".*"))
    assert not list((storage / "experiment").glob(".storage-*"))
    for node in cluster.away:
        assert not list(Path(node.session_dir).glob("tune/*/*"))


def test_a_trial_goes_on_elsewhere_when_its_machine_dies(cluster, storage):
    meeting = meeting_at_home()

    def meet(number):
        while number == 2 and not ray.get(meeting.all.remote()):
            time.sleep(0.01)

    class Killer(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if len(cluster.away) == 2 and [trial.last_result.get("score") for trial in trials] == [2, 2, 2, 2]:
                cluster.remove_node(cluster.away.pop(), allow_graceful=False)
                ray.get(meeting.note.remote("killed"))

    space = {"n": tune.grid_search([0, 1, 2, 3]), "storage": str(storage), "meet": meet}
    run = {"failure_config": tune.FailureConfig(max_failures=1), "callbacks": [Killer()]}
    results = fit(count, storage, space, run=run)
    assert not results.errors
    assert sorted(result.metrics["first"] for result in results) == [0, 0, 2, 2]
    assert all(result.metrics["node"] == cluster.away[0].node_id for result in results)
    assert all(result.metrics["score"] == 4 for result in results)
    for result in results:
        assert (Path(result.checkpoint.path) / "load").stat().st_size == 3 << 20
        assert len((Path(result.path) / "result.json").read_text().splitlines()) == 4
        assert (Path(result.path) / "error.txt").exists() == (result.metrics["first"] == 2)


@pytest.mark.filterwarnings("ignore:nothing runs")
def test_a_process_that_waited_and_died_costs_the_next_trial_nothing(cluster, storage):
    class Killer(tune.Callback):
        rounds = 0

        def on_trial_complete(self, iteration, trials, trial, **info):
            while cluster.away:
                cluster.remove_node(cluster.away.pop(), allow_graceful=False)

        def on_step_begin(self, iteration, trials, **info):
            self.rounds += not cluster.away
            if self.rounds == 5:
                cluster.away.append(cluster.add_node(num_cpus=1))

    def train(config):
        tune.report({"score": config["n"], "node": here()})

    run = {"callbacks": [Killer()]}
    results = fit(train, storage, {"n": tune.grid_search([1, 2])}, run=run, max_concurrent_trials=1)
    assert not results.errors
    assert [result.metrics["score"] for result in results] == [1, 2]
    assert not list((storage / "experiment").glob("*/error.txt"))


class Adder(tune.Trainable):
    """Counts up in steps of its own, and carries more than one piece has room for."""

    def setup(self, config):
        assert not os.path.exists(config["storage"] + "/experiment")
        self.load = os.urandom(config.get("load", 0))
        self.sum = 0

    def step(self):
        self.sum += self.config["by"]
        if self.config["by"] > 20:
            print("stepped")
        return {"score": self.sum, "node": here(), "done": self.sum >= 60}

    def save_checkpoint(self, checkpoint_dir):
        Path(checkpoint_dir, "sum").write_text(str(self.sum))
        Path(checkpoint_dir, "load").write_bytes(self.load)

    def load_checkpoint(self, checkpoint_dir):
        self.sum = int(Path(checkpoint_dir, "sum").read_text())
        self.load = Path(checkpoint_dir, "load").read_bytes()


def test_a_class_is_saved_elsewhere_and_goes_on_after_the_program(cluster, storage):
    space = {"by": tune.grid_search([10, 30]), "load": LARGE, "storage": str(storage)}

    class End(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["score"] == 40:
                raise RuntimeError("the program ends")

    run = {
        "checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
        "log_to_file": True,
    }
    with pytest.raises(RuntimeError, match="the program ends"):
        fit(Adder, storage, space, run=run | {"callbacks": [End()]})
    results = tune.Tuner.restore(str(storage / "experiment"), Adder).fit()
    assert not results.errors
    for result in results:
        kept = Path(result.checkpoint.path)
        assert (kept / "sum").read_text() == "60"
        assert (kept / "load").stat().st_size == LARGE
        assert ("stepped\n" in (Path(result.path) / "stdout").read_text()) == (result.config["by"] > 20)
    assert results[0].metrics["iterations_since_restore"] < results[0].metrics["training_iteration"] == 6


def test_trials_go_on_from_checkpoints_of_other_machines(cluster, storage):
    """The worse one is given what the better one has, time and again."""
    scheduler = tune.schedulers.PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"unused": [0, 1]},
        quantile_fraction=0.5,
        synch=True,
    )
    space = {"by": tune.grid_search([1, 20]), "unused": 0, "load": LARGE, "storage": str(storage)}
    results = fit(
        Adder, storage, space, scheduler=scheduler, run={"checkpoint_config": tune.CheckpointConfig(num_to_keep=2)}
    )
    assert not results.errors
    assert all(result.metrics["score"] >= 60 for result in results)
    # Counting by ones from nothing it would have taken sixty steps.
    assert all(result.metrics["training_iteration"] < 10 for result in results)


def test_a_program_that_joins_as_a_guest_tunes_on_the_nodes(machine, elsewhere):
    address, token = machine.head()
    machine.join(address)
    code = """
    from eagleray import tune

    def train(config):
        for number in range(3):
            checkpoint = tune.Checkpoint.from_dict({"number": number})
            tune.report({"score": number * config["by"]}, checkpoint=checkpoint)

    ray.init(sys.argv[1])
    analysis = tune.run(train, config={"by": tune.grid_search([1, 2, 3])}, metric="score", mode="max", storage_path=sys.argv[2], verbose=0)
    print(analysis.best_config["by"], analysis.best_checkpoint.to_dict()["number"])
    """
    folder = elsewhere.folder / "results"
    out, _ = elsewhere.run(textwrap.dedent(code), address, folder, env={"EAGLERAY_TOKEN_FILE": str(token)})
    assert out == "3 2\n"
