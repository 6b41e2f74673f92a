"""Writes what programs keep on disk: pickles of all kinds of our objects, an experiment of Tune, a checkpoint of RLlib.

    python tests/python/stored/make.py FOLDER NAME

makes FOLDER/NAME.tar.gz with the eagleray that is imported. Each archive beside this file was written by another version, and
`test_stored.py` reads them all with today's. Make a new one before names that stand in pickles move. Run a copy of this file in /tmp, because
pickled functions name the file that they are from, and in `unshare --uts` with another host name, because results name the host.
"""

import io
import json
import pickle
import sys
import tarfile
import tempfile
from pathlib import Path

import eagleray as ray
from eagleray import available_resources, cancel, cloudpickle, init, nodes, tune
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.tune.schedulers import ASHAScheduler
from eagleray.tune.search import TPESearch
from eagleray.util import inspect_serializability, list_named_actors, placement_group, register_serializer

FUNCTIONS = (available_resources, cancel, init, nodes, inspect_serializability, list_named_actors, placement_group)


def uses_functions():
    return [function.__name__ for function in FUNCTIONS]


class Strict(Exception):
    """Its constructor takes more than its text."""

    def __init__(self, where, what):
        super().__init__(f"{where}: {what}")
        self.where = where


class Point:
    def __init__(self, x):
        self.x = x


def point_of(x):
    return ("point", x)


def trainable(config):
    for step in range(3):
        tune.report({"loss": (config["x"] - 1) ** 2 + step, "job": config["job"].hex()})
        if config["fails"] and step == 1:
            raise Strict("step", step)


@ray.remote
class Counter:
    def count(self):
        return 1


@ray.remote
def failing():
    raise Strict("task", 7)


@ray.remote(num_returns="dynamic")
def yielding():
    yield 5


def pickles():
    register_serializer(Point, serializer=lambda point: point.x, deserializer=point_of)
    kinds = (ray.JobID, ray.TaskID, ray.ActorID, ray.NodeID, ray.WorkerID)
    group = placement_group([{"CPU": 1}])
    counter = Counter.remote()
    try:
        ray.get(failing.remote())
    except ray.exceptions.RayTaskError as error:
        failure = error
    point = Point(3)
    captured = _body(lambda: point)
    return {
        "ids": pickle.dumps([kind(b"7" * kind.LENGTH) for kind in kinds]),
        "group": pickle.dumps(group),
        "handle": pickle.dumps(counter),
        "meta": pickle.dumps(counter._meta),
        "error": cloudpickle.dumps(failure),
        "captured": captured,
        "functions": cloudpickle.dumps(list(FUNCTIONS)),
        "closure": cloudpickle.dumps(uses_functions),
        "generator": pickle.dumps(ray.get(yielding.remote())),
        "remote class": cloudpickle.dumps(Counter),
        "remote function": cloudpickle.dumps(failing),
    }


def _body(function):
    try:
        from eagleray._values.pickling import dumps_function
    except ImportError:
        from eagleray._pickle import dumps_function
    return dumps_function(function)


def experiment(folder):
    tuner = tune.Tuner(
        trainable,
        param_space={
            "x": tune.uniform(0, 2),
            "fails": tune.choice([False, False, True]),
            "job": ray.JobID(b"1234"),
        },
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=6, search_alg=TPESearch(seed=1), scheduler=ASHAScheduler()
        ),
        run_config=tune.RunConfig(name="experiment", storage_path=str(folder), verbose=0),
    )
    return [result.error is not None for result in tuner.fit()]


def checkpoint(folder):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config = config.training(train_batch_size=64, minibatch_size=32, num_epochs=1, model={"fcnet_hiddens": [4]})
    algorithm = config.debugging(seed=1).build()
    algorithm.train()
    algorithm.save(str(folder / "checkpoint"))
    algorithm.stop()


def main(folder, name):
    # Stacks name folders of this machine; nobody needs to know which they were.
    folder_of_package = str(Path(ray.__file__).parent).encode()
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        made = Path(made)
        ray.init(num_cpus=2)
        for key, data in pickles().items():
            (made / f"{key}.pickle").write_bytes(data)
        # Actors and placement groups of above hold cores.
        ray.shutdown()
        ray.init(num_cpus=2)
        failed = experiment(made)
        checkpoint(made)
        (made / "about.json").write_text(json.dumps({"failed": failed}))
        ray.shutdown()
        with tarfile.open(Path(folder) / f"{name}.tar.gz", "w:gz") as archive:
            for path in sorted(made.rglob("*")):
                if not path.is_file() or path.name.startswith("events.out"):
                    continue
                data = path.read_bytes()
                if path.suffix == ".txt":
                    data = data.replace(folder_of_package, b"eagleray")
                entry = tarfile.TarInfo(str(path.relative_to(made)))
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])
