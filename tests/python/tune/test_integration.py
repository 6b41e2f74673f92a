"""Callbacks of other libraries that report to Tune, with small libraries in the place of the real ones."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from eagleray import tune
from eagleray.tune.examples.pbt_function import pbt_function
from eagleray.tune.schedulers import PopulationBasedTraining
from eagleray.tune.utils.mock_trainable import MyTrainableClass, register_mock_trainable
from eagleray.tune.utils.util import validate_save_restore


class Model:
    """What all the libraries' models are here: something that writes a file."""

    def __init__(self, name="trained"):
        self.name = name

    def save_model(self, path):
        Path(path).write_text(self.name)

    save = save_checkpoint = save_model


class Booster(Model):
    def __init__(self, model_file=None):
        super().__init__()
        if model_file is not None:
            self.load_model(model_file)

    def load_model(self, path):
        self.name = Path(path).read_text()


@pytest.fixture
def reported(monkeypatch):
    """What is reported instead of to an experiment: metrics, and the files of checkpoints."""
    found = []

    def report(metrics, checkpoint=None):
        files = None
        if checkpoint is not None:
            files = {path.name: path.read_text() for path in Path(checkpoint.path).iterdir()}
        found.append((metrics, files))

    monkeypatch.setattr(tune, "report", report)
    return found


@pytest.fixture
def integration(monkeypatch):
    """Imports a module of `tune.integration` with these modules in the place of the real ones."""

    def load(name, **modules):
        for key, attributes in modules.items():
            module = ModuleType(key)
            vars(module).update(attributes)
            monkeypatch.setitem(sys.modules, key, module)
        monkeypatch.delitem(sys.modules, f"eagleray.tune.integration.{name}", raising=False)
        found = importlib.import_module(f"eagleray.tune.integration.{name}")
        monkeypatch.delitem(sys.modules, f"eagleray.tune.integration.{name}")
        return found

    return load


@pytest.mark.parametrize(
    ("name", "package"),
    [("xgboost", "xgboost"), ("lightgbm", "lightgbm"), ("keras", "keras"), ("pytorch_lightning", "lightning")],
)
def test_a_callback_whose_library_is_missing_says_what_to_install(monkeypatch, name, package):
    for missing in (package, "tensorflow", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"eagleray.tune.integration.{name}", raising=False)
    with pytest.raises(ImportError, match=f"tune.integration.{name} needs .*pip install {package}"):
        importlib.import_module(f"eagleray.tune.integration.{name}")


def test_xgboost_reports_every_round_and_the_trained_model(integration, reported):
    callback = SimpleNamespace(TrainingCallback=type("TrainingCallback", (), {}))
    module = integration("xgboost", xgboost={"callback": callback, "Booster": Booster})
    made = module.TuneReportCheckpointCallback({"loss": "eval-logloss"}, frequency=2)
    log = {"eval": {"logloss": [], "error": []}}
    for number in range(3):
        log["eval"]["logloss"].append(1.0 / (number + 1))
        log["eval"]["error"].append(0.5)
        assert made.after_iteration(Model(), number, log) is False
    model = Model("whole")
    assert made.after_training(model) is model
    kept = {"model.ubj": "trained"}
    assert reported == [
        ({"loss": 1.0}, None),
        ({"loss": 0.5}, kept),
        ({"loss": 1 / 3}, None),
        ({"loss": 1 / 3}, {"model.ubj": "whole"}),
    ]
    reported.clear()
    module.TuneReportCallback().after_iteration(Model(), 0, log)
    assert reported == [({"eval-logloss": 1 / 3, "eval-error": 0.5}, None)]
    reported.clear()
    # It trains in an actor of a library's, which passes the rounds on to the trial.
    elsewhere = module.TuneReportCheckpointCallback()
    assert elsewhere.after_training(model) is model
    assert reported == []
    with pytest.raises(KeyError, match="'eval-auc' is none of the metrics that there are"):
        module.TuneReportCallback("eval-auc").after_iteration(Model(), 0, log)


def test_lightgbm_reports_every_round_and_the_last_with_the_model(integration, reported, tmp_path):
    module = integration("lightgbm", lightgbm={"Booster": Booster})
    made = module.TuneReportCheckpointCallback(["eval-l2"])
    for number in range(2):
        made(
            SimpleNamespace(
                iteration=number,
                end_iteration=2,
                model=Model(),
                evaluation_result_list=[("eval", "l2", float(number), False), ("eval", "l1", 9.0, False)],
            )
        )
    assert reported == [({"eval-l2": 0.0}, None), ({"eval-l2": 1.0}, {"model.txt": "trained"})]
    reported.clear()
    folds = [("cv_agg", "l2", 0.25, False, 0.1)]
    module.TuneReportCallback()(SimpleNamespace(iteration=0, end_iteration=5, model=None, evaluation_result_list=folds))
    assert reported == [({"cv_agg-l2-mean": 0.25, "cv_agg-l2-stdv": 0.1}, None)]
    Model("kept").save_model(tmp_path / "model.txt")
    checkpoint = tune.Checkpoint.from_directory(tmp_path)
    assert module.TuneReportCheckpointCallback.get_model(checkpoint).name == "kept"


def test_keras_reports_when_it_is_told_to(integration, reported):
    callbacks = SimpleNamespace(Callback=type("Callback", (), {"__init__": lambda self: None, "model": Model()}))
    module = integration("keras", keras={"callbacks": callbacks})
    made = module.TuneReportCheckpointCallback({"loss": "val_loss"}, filename="m", frequency=2)
    for number in range(2):
        made.on_train_batch_end(number, {"val_loss": 7.0})
        made.on_epoch_end(number, {"val_loss": 1.0 - number, "accuracy": 0.5})
    assert reported == [({"loss": 1.0}, None), ({"loss": 0.0}, {"m": "trained"})]
    reported.clear()
    made = module.TuneReportCallback(on=["batch_end", "train_end"])
    made.on_train_batch_end(0, {"loss": 2.0})
    made.on_train_end({"loss": 1.0})
    assert reported == [({"loss": 2.0}, None), ({"loss": 1.0}, None)]
    with pytest.raises(ValueError, match="'epoch' is none of Keras's events"):
        module.TuneReportCallback(on="epoch")


def test_lightning_reports_its_metrics_and_not_those_of_the_first_check(integration, reported):
    hooks = {"on_validation_end": lambda *_: None, "on_train_end": lambda *_: None}
    base = type("Callback", (), {"__init__": lambda self: None, **hooks})
    module = integration("pytorch_lightning", lightning={"__path__": []}, **{"lightning.pytorch": {"Callback": base}})
    made = module.TuneReportCheckpointCallback({"loss": "val_loss"})
    trainer = SimpleNamespace(
        sanity_checking=True, callback_metrics={"val_loss": 0.5, "other": 1}, save_checkpoint=Model().save_model
    )
    made.on_validation_end(trainer, None)
    assert reported == []
    trainer.sanity_checking = False
    made.on_validation_end(trainer, None)
    module.TuneReportCallback(on="train_end").on_train_end(trainer, None)
    assert reported == [({"loss": 0.5}, {"checkpoint": "trained"}), ({"val_loss": 0.5, "other": 1}, None)]
    with pytest.raises(ValueError, match="'validation' is none of Lightning's events"):
        module.TuneReportCallback(on="validation")


def test_what_xgboost_ray_and_lightgbm_ray_import_is_there(integration):
    # Without any one of these names they take it that there is no Tune, and report nothing.
    callback = SimpleNamespace(TrainingCallback=type("TrainingCallback", (), {}))
    loaded = [
        integration("xgboost", xgboost={"callback": callback, "Booster": Booster}),
        integration("lightgbm", lightgbm={"Booster": Booster}),
    ]
    for module in loaded:
        assert issubclass(module.TuneReportCallback, module.TuneReportCheckpointCallback)
        assert issubclass(module._TuneCheckpointCallback, module.TuneReportCheckpointCallback)
        made = module.TuneReportCheckpointCallback(metrics="met", filename="file", frequency=7)
        assert (made._metrics, made._filename, made._frequency) == ("met", "file", 7)
    assert tune.is_session_enabled() is False


def test_a_callback_within_a_trial_reports_to_its_experiment(shared_ray, tmp_path):
    def train(config):
        import sys
        from types import ModuleType

        sys.modules["lightgbm"] = ModuleType("lightgbm")
        from eagleray.tune.integration.lightgbm import TuneReportCheckpointCallback

        assert tune.is_session_enabled()
        callback = TuneReportCheckpointCallback(frequency=1)
        for number in range(2):
            seen = [("eval", "l2", config["x"] / (number + 1), False)]
            callback(SimpleNamespace(iteration=number, end_iteration=2, model=Model(), evaluation_result_list=seen))

    run = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    (result,) = tune.Tuner(train, param_space={"x": 4.0}, run_config=run).fit()
    assert result.metrics["eval-l2"] == 2.0
    assert (Path(result.checkpoint.path) / "model.txt").read_text() == "trained"


def test_the_trainable_for_trying_out_is_found_by_name_and_can_be_restored(shared_ray, tmp_path):
    register_mock_trainable()
    run = tune.RunConfig(storage_path=str(tmp_path), verbose=0, stop={"training_iteration": 3})
    space = {"width": 10, "height": tune.grid_search([1, 2])}
    results = tune.Tuner("mock_trainable", param_space=space, run_config=run).fit()
    one, two = (result.metrics["episode_reward_mean"] for result in results)
    assert two == pytest.approx(2 * one)
    assert validate_save_restore(MyTrainableClass, {"width": 10})


def test_the_function_for_population_based_training_gets_better_and_goes_on(shared_ray, tmp_path):
    scheduler = PopulationBasedTraining(
        perturbation_interval=4, hyperparam_mutations={"lr": tune.uniform(0.001, 0.1)}, seed=1
    )
    results = tune.Tuner(
        pbt_function,
        param_space={"lr": tune.grid_search([0.002, 0.004]), "checkpoint_interval": 2},
        tune_config=tune.TuneConfig(metric="mean_accuracy", mode="max", scheduler=scheduler),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, stop={"training_iteration": 12}),
    ).fit()
    assert not results.errors
    best = results.get_best_result()
    assert best.metrics["mean_accuracy"] > 0
    assert json.loads((Path(best.checkpoint.path) / "checkpoint.json").read_text())["step"] > 0
