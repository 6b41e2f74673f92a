"""Names that libraries written for Ray import: marks of stability, the cluster launcher's, trackers of experiments."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import eagleray as ray
from eagleray import tune
from eagleray._common.version import RAY_VERSION
from eagleray.air.integrations.comet import CometLoggerCallback
from eagleray.air.integrations.mlflow import MLflowLoggerCallback, setup_mlflow
from eagleray.air.integrations.wandb import WandbLoggerCallback, setup_wandb
from eagleray.autoscaler import sdk
from eagleray.util.annotations import Deprecated, DeveloperAPI, PublicAPI, RayDeprecationWarning, _is_annotated

REPOSITORY = Path(__file__).parents[3]


class TestMarks:
    @pytest.mark.parametrize(
        "mark",
        [
            PublicAPI,
            PublicAPI(),
            PublicAPI(stability="beta"),
            PublicAPI(stability="alpha", api_group="Others"),
            DeveloperAPI,
            DeveloperAPI(),
            DeveloperAPI(api_group="Others"),
            Deprecated,
            Deprecated(),
            Deprecated(message="use another"),
        ],
    )
    def test_L9d_a_mark_stands_alone_or_with_words_and_changes_nothing_else(self, mark):
        def function(a, b=2):
            """About it."""
            return a + b

        class Class:
            def __init__(self, a):
                self.a = a

        class Child(Class):
            pass

        marked, made = mark(function), mark(Class)
        assert marked(1) == 3
        assert marked.__name__ == "function"
        assert marked.__doc__.startswith("About it.")
        assert made is Class
        assert made(4).a == 4
        assert _is_annotated(marked)
        assert _is_annotated(Class)
        assert not _is_annotated(Child)

    def test_L9d_what_is_deprecated_with_a_warning_warns(self):
        @Deprecated(message="use another", warning=True)
        def function():
            return 1

        @Deprecated(warning=True)
        class Class:
            pass

        with pytest.warns(RayDeprecationWarning, match="function is deprecated. use another"):
            assert function() == 1
        with pytest.warns(RayDeprecationWarning, match="Class is deprecated"):
            Class()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Deprecated(lambda: 1)()

    def test_L9d_a_mark_that_nobody_knows_is_refused(self):
        with pytest.raises(ValueError, match="stability must be one of"):
            PublicAPI(stability="firm")
        with pytest.raises(TypeError, match="keyword arguments"):
            PublicAPI("beta")

    def test_L9d_marked_functions_and_classes_run_remotely(self, shared_ray):
        @ray.remote
        @PublicAPI(stability="beta")
        def function():
            return 1

        @ray.remote
        @DeveloperAPI
        class Actor:
            def get(self):
                return 2

        assert ray.get([function.remote(), Actor.remote().get.remote()]) == [1, 2]


class TestLauncher:
    def test_L9d_what_can_be_meant_on_one_machine_is_done(self):
        sdk.request_resources(num_cpus=4)
        sdk.request_resources(bundles=[{"CPU": 1}])
        sdk.configure_logging(log_style="record", color_mode="auto", verbosity=1)
        assert sdk.get_head_node_ip({}) == "127.0.0.1"
        assert sdk.get_worker_node_ips({}) == []
        with pytest.raises(TypeError, match="num_cpus"):
            sdk.request_resources(num_cpus="4")
        with pytest.raises(TypeError, match="bundles"):
            sdk.request_resources(bundles={"CPU": 1})

    @pytest.mark.parametrize("name", ["create_or_update_cluster", "teardown_cluster", "run_on_cluster", "rsync"])
    def test_L9d_the_rest_says_what_to_do_instead(self, name):
        with pytest.raises(NotImplementedError, match=f"{name}: .*eagleray start --head"):
            getattr(sdk, name)({})


#: Stands for a tracker's package: everything that is called is written down, with what made the object.
RECORDER = """
import json, os, types

class Thing:
    def __init__(self, name):
        self._name = name
    def __call__(self, *args, **kwargs):
        with open(os.environ["RECORD"], "a") as file:
            file.write(json.dumps([self._name, list(args), kwargs], default=str) + "\\n")
        if self._name.endswith("get_experiment_by_name"):
            return None
        return Thing(self._name + "()")
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing(self._name + "." + name)
    def __str__(self):
        return self._name

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Thing(__name__ + "." + name)
"""

#: Says which calls a trial that reports 1 and 2 and one that fails lead to.
PROGRAM = """
import sys
from ray import tune
from ray.air.integrations.{module} import {name}

def train(config):
    for number in (1, 2):
        tune.report({{"score": number * config["x"], "text": "no number"}})
    if config["x"] == 2:
        raise ValueError("meant")

tuner = tune.Tuner(
    train,
    param_space={{"x": tune.grid_search([1, 2]), "deep": {{"y": 3}}}},
    run_config=tune.RunConfig(name="exp", storage_path=sys.argv[1], callbacks=[{name}({arguments})], verbose=0),
)
tuner.fit()
"""


def recorded(drivers, tmp_path, package, module, name, arguments):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / f"{package}.py").write_text(RECORDER)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(module=module, name=name, arguments=arguments))
    path = os.pathsep.join([str(tmp_path / "lib"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "eagleray", "run", str(program), str(tmp_path / "results")],
        env=drivers.environ(PYTHONPATH=path, RECORD=tmp_path / "record"),
        text=True,
        capture_output=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]


class TestTrackers:
    def test_L9d_mlflow_gets_a_run_for_each_trial(self, drivers, tmp_path):
        arguments = "experiment_name='mine', tags={'a': 1}, save_artifact=True"
        calls = recorded(drivers, tmp_path, "mlflow", "mlflow", "MLflowLoggerCallback", arguments)
        names = [name.rpartition(".")[2] for name, _, _ in calls]
        assert names.count("create_experiment") == 1
        assert names.count("create_run") == 2
        params = [args[1:] for name, args, _ in calls if name.endswith("log_param")]
        assert sorted(params) == [["deep/y", 3], ["deep/y", 3], ["x", 1], ["x", 2]]
        scores = [
            (args[2], kwargs["step"])
            for name, args, kwargs in calls
            if name.endswith("log_metric") and args[1] == "score"
        ]
        assert sorted(scores) == [(1.0, 1), (2.0, 1), (2.0, 2), (4.0, 2)]
        assert not [args for name, args, _ in calls if name.endswith("log_metric") and args[1] == "text"]
        ends = [kwargs["status"] for name, _, kwargs in calls if name.endswith("set_terminated")]
        assert sorted(ends) == ["FAILED", "FINISHED"]
        assert names.count("log_artifacts") == 2

    def test_L9d_weights_and_biases_gets_a_run_for_each_trial(self, drivers, tmp_path):
        arguments = "project='mine', excludes=['text'], mode='offline'"
        calls = recorded(drivers, tmp_path, "wandb", "wandb", "WandbLoggerCallback", arguments)
        begun = [kwargs for name, _, kwargs in calls if name == "wandb.init"]
        assert [(each["project"], each["group"], each["mode"]) for each in begun] == [("mine", "exp", "offline")] * 2
        assert sorted(each["config"]["x"] for each in begun) == [1, 2]
        scores = [args[0]["score"] for name, args, _ in calls if name == "wandb.init().log"]
        assert sorted(scores) == [1.0, 2.0, 2.0, 4.0]
        assert sorted(kwargs["exit_code"] for name, _, kwargs in calls if name == "wandb.init().finish") == [0, 1]

    def test_L9d_comet_gets_an_experiment_for_each_trial(self, drivers, tmp_path):
        calls = recorded(drivers, tmp_path, "comet_ml", "comet", "CometLoggerCallback", "online=False, tags=['a']")
        assert [name for name, _, _ in calls].count("comet_ml.OfflineExperiment") == 2
        scores = [args[0]["score"] for name, args, _ in calls if name.endswith("log_metrics")]
        assert sorted(scores) == [1.0, 2.0, 2.0, 4.0]
        assert [name for name, _, _ in calls].count("comet_ml.OfflineExperiment().end") == 2

    @pytest.mark.parametrize(
        ("use", "package"),
        [
            (lambda: MLflowLoggerCallback().setup(), "mlflow"),
            (lambda: setup_mlflow({}), "mlflow"),
            (lambda: WandbLoggerCallback().setup(), "wandb"),
            (lambda: setup_wandb({}), "wandb"),
            (lambda: CometLoggerCallback().setup(), "comet_ml"),
        ],
    )
    def test_L9d_without_its_package_a_tracker_says_what_to_install(self, use, package):
        if importlib.util.find_spec(package) is not None:
            pytest.skip(f"{package} is installed")
        with pytest.raises(ImportError, match=re.escape(f"run `pip install {package.replace('_', '-')}`")):
            use()

    def test_L9d_both_ways_to_give_a_key_at_once_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="api_key_file"):
            WandbLoggerCallback(api_key="a", api_key_file=str(tmp_path))


def test_L9d_libraries_ask_for_the_session_of_a_trial(ray_session, tmp_path):
    from eagleray.train._internal.session import get_session

    def train(_config):
        from eagleray.train._internal.session import get_session

        tune.report({"inside": int(get_session() is not None)})

    assert get_session() is None
    results = tune.Tuner(train, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert results[0].metrics["inside"] == 1


def test_L9d_libraries_ask_for_a_logger_and_a_client():
    import eagleray.util.client

    assert ray.logger.name == "ray"
    assert not eagleray.util.client.ray.is_connected()
    with pytest.raises(NotImplementedError, match="init"):
        eagleray.util.client.ray.connect("ray://somewhere")


class TestDistribution:
    def test_L9a_the_second_distribution_makes_ray_another_name(self, drivers):
        code = """
        del ray
        import importlib.util, ray.util
        from ray.util import ActorPool
        import ray, eagleray
        assert ray is eagleray
        ray.init(num_cpus=1)
        def names():
            import ray.util, eagleray
            return ray is eagleray
        assert ray.get(ray.remote(names).remote())
        print("fine", ray.__version__)
        """
        path = os.pathsep.join([str(REPOSITORY / "packaging" / "ray" / "src"), os.environ.get("PYTHONPATH", "")])
        assert f"fine {RAY_VERSION}" in drivers.run(code, env={"PYTHONPATH": path})[0]

    def test_L9a_its_version_is_the_one_that_the_module_says(self):
        about = tomllib.loads((REPOSITORY / "packaging" / "ray" / "pyproject.toml").read_text())["project"]
        assert (about["name"], about["version"], about["dependencies"]) == ("ray", RAY_VERSION, ["eagleray"])
