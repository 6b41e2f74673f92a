"""Callbacks and loggers: who is called when, and what they leave in a trial's folder."""

import json
import pickle
import threading
import types

import pytest

from eagleray import cloudpickle
from eagleray.tune.callback import HOOKS, Callback, CallbackList
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.logger import (
    DEFAULT_LOGGERS,
    CSVLoggerCallback,
    DefaultLogs,
    JsonLoggerCallback,
    LegacyLoggerCallback,
    Logger,
    LoggerCallback,
    NoopLogger,
    TBXLoggerCallback,
    UnifiedLogger,
    default_callbacks,
    pretty_print,
)


@pytest.fixture
def trial(tmp_path):
    return Trial(
        "train",
        number=0,
        trial_id="abc_00000",
        config={"lr": 0.1, "f": len},
        evaluated_params={"lr": 0.1},
        path=tmp_path / "trial",
    )


def _arguments(hook):
    if hook == "setup":
        return {"stop": None, "num_samples": 1, "total_num_samples": 1}
    more = {"on_trial_result": {"result": {}}, "on_checkpoint": {"checkpoint": None}}.get(hook, {})
    if hook == "on_experiment_end":
        return {"trials": []}
    if hook.startswith("on_step"):
        return {"iteration": 1, "trials": []}
    return {"iteration": 1, "trials": [], "trial": None, **more}


def test_every_hook_reaches_every_callback_in_order():
    # proves: N8f
    seen = []

    def recorder(name):
        def of(hook):
            return lambda self, **info: seen.append((name, hook, sorted(info)))

        return type("Recorder", (Callback,), {hook: of(hook) for hook in HOOKS})()

    together = CallbackList([recorder("a"), Callback(), recorder("b")])
    for hook in HOOKS:
        getattr(together, hook)(**_arguments(hook), further=1)
        names = sorted([*_arguments(hook), "further"])
        assert seen == [("a", hook, names), ("b", hook, names)]
        seen.clear()
    assert len(together) == 3


def test_a_callback_need_not_be_a_subclass_and_may_set_a_hook_itself():
    seen = []
    odd = types.SimpleNamespace(on_step_end=lambda **info: seen.append(info["iteration"]), get_state=lambda: None)
    late = Callback()
    late.on_step_end = lambda **info: seen.append("late")
    CallbackList([odd, late]).on_step_end(iteration=4, trials=[])
    assert seen == [4, "late"]


def test_states_go_with_their_place():
    # proves: N8f
    class Counting(Callback):
        def __init__(self):
            self.count = 0

        def get_state(self):
            return {"count": self.count}

        def set_state(self, state):
            self.count = state["count"]

    one = CallbackList([Callback(), Counting()])
    next(iter(reversed(list(one)))).count = 5
    assert json.loads(json.dumps(one.get_state())) == {"1": {"count": 5}}
    other = CallbackList([Callback(), Counting()])
    other.set_state(one.get_state())
    assert list(other)[1].count == 5
    assert CallbackList([Callback()]).get_state() is None


def test_a_logger_callback_is_told_of_a_trials_life(trial):
    # proves: N8g
    seen = []

    class Mine(LoggerCallback):
        def log_trial_start(self, trial):
            seen.append("start")

        def log_trial_restore(self, trial):
            seen.append("restore")

        def log_trial_save(self, trial):
            seen.append("save")

        def log_trial_result(self, iteration, trial, result):
            seen.append((iteration, result))

        def log_trial_end(self, trial, failed=False):
            seen.append(("end", failed))

    mine = CallbackList([Mine()])
    about = {"iteration": 3, "trials": [trial], "trial": trial}
    mine.on_trial_start(**about)
    mine.on_trial_restore(**about)
    mine.on_trial_save(**about)
    mine.on_trial_result(**about, result={"loss": 1})
    mine.on_trial_complete(**about)
    mine.on_trial_error(**about)
    assert seen == ["start", "restore", "save", (3, {"loss": 1}), ("end", False), ("end", True)]


def _files(folder):
    return sorted("events" if path.name.startswith("events.out") else path.name for path in folder.iterdir())


def _life(callback, trial, results=2):
    callback.on_trial_start(iteration=0, trials=[trial], trial=trial)
    for iteration in range(1, results + 1):
        callback.on_trial_result(
            iteration=iteration,
            trials=[trial],
            trial=trial,
            result={"loss": 1 / iteration, "training_iteration": iteration},
        )
    callback.on_trial_complete(iteration=9, trials=[trial], trial=trial)


@pytest.mark.parametrize(
    ("make", "files"),
    [
        (CSVLoggerCallback, ["progress.csv"]),
        (JsonLoggerCallback, ["params.json", "params.pkl", "result.json"]),
        (TBXLoggerCallback, ["events"]),
        (DefaultLogs, ["events", "params.json", "params.pkl", "progress.csv", "result.json"]),
        (
            lambda: LegacyLoggerCallback(DEFAULT_LOGGERS),
            ["events", "params.json", "params.pkl", "progress.csv", "result.json"],
        ),
        (
            lambda: LegacyLoggerCallback([UnifiedLogger]),
            ["events", "params.json", "params.pkl", "progress.csv", "result.json"],
        ),
        (lambda: LegacyLoggerCallback([NoopLogger]), []),
    ],
)
def test_each_logger_leaves_its_files(trial, make, files):
    # proves: N8d, N8g
    trial.path.mkdir()
    callback = make()
    _life(callback, trial)
    assert _files(trial.path) == files
    if "result.json" in files:
        assert [json.loads(line)["training_iteration"] for line in (trial.path / "result.json").open()] == [1, 2]
        assert json.loads((trial.path / "params.json").read_text())["lr"] == 0.1
        assert cloudpickle.loads((trial.path / "params.pkl").read_bytes()) == trial.config
    if "progress.csv" in files:
        assert (trial.path / "progress.csv").read_text() == "loss,training_iteration\n1.0,1\n0.5,2\n"


def test_loggers_of_old_live_as_long_as_their_trial(trial):
    # proves: N8g
    seen = []

    class Old(Logger):
        def _init(self):
            seen.append(("init", self.config["lr"], self.logdir, self.trial))

        def on_result(self, result):
            seen.append(result["loss"])

        def update_config(self, config):
            seen.append(("config", config["lr"]))

        def flush(self):
            seen.append("flush")

        def close(self):
            seen.append("close")

    callback = LegacyLoggerCallback([Old])
    callback.log_trial_start(trial)
    callback.log_trial_result(1, trial, {"loss": 3})
    trial.config = {"lr": 0.2}
    callback.log_trial_start(trial)
    callback.log_trial_end(trial)
    assert seen == [("init", 0.1, str(trial.path), trial), 3, ("config", 0.2), "flush", "close"]
    with pytest.raises(NotImplementedError, match=r"Logger has no on_result\(\)"):
        Logger({}, "").on_result({})


def test_the_line_is_what_the_journal_keeps(trial):
    logs = DefaultLogs()
    logs.start(trial)
    static = {"trial_id": "abc_00000", "config": trial.config}
    line = logs.result(trial, {"loss": 1.5}, static)
    logs.flush()
    assert (trial.path / "result.json").read_bytes() == line + b"\n"
    assert json.loads(line) == {"loss": 1.5, "trial_id": "abc_00000", "config": {"lr": 0.1, "f": str(len)}}
    logs.close()


def test_a_trial_without_a_folder_still_has_lines(trial):
    trial.path = None
    logs = DefaultLogs()
    logs.start(trial)
    assert logs.result(trial, {"loss": 1}) == b'{"loss": 1}'
    logs.failed(trial, ValueError("no"))
    logs.end(trial)


def test_files_are_made_anew_from_the_journal(trial):
    logs = DefaultLogs()
    _life(logs, trial, results=5)
    logs.rewrite(trial, [{"loss": 9, "training_iteration": 1}])
    logs.result(trial, {"loss": 8, "training_iteration": 2})
    logs.close()
    assert (trial.path / "progress.csv").read_text() == "loss,training_iteration\n9,1\n8,2\n"
    assert len((trial.path / "result.json").read_text().splitlines()) == 2


def test_an_error_is_left_as_text_and_as_itself(trial):
    # proves: N8d
    logs = DefaultLogs()
    logs.start(trial)
    try:
        raise KeyError("lost")
    except KeyError as error:
        trial.error = error
    logs.on_trial_error(iteration=1, trials=[trial], trial=trial)
    text = (trial.path / "error.txt").read_text()
    assert "Traceback" in text
    assert "KeyError: 'lost'" in text
    kept = pickle.loads((trial.path / "error.pkl").read_bytes())
    assert isinstance(kept, KeyError)
    # Another attempt adds to the text; an error that cannot be pickled is one with its text.
    unpicklable = ValueError("locked")
    unpicklable.lock = threading.Lock()
    logs.failed(trial, unpicklable, "second time")
    assert "KeyError" in (trial.path / "error.txt").read_text()
    assert "second time" in (trial.path / "error.txt").read_text()
    assert "ValueError: locked" in str(pickle.loads((trial.path / "error.pkl").read_bytes()))


def test_what_the_program_logs_itself_is_not_logged_twice(trial, monkeypatch):
    # proves: N8e
    own = [CSVLoggerCallback(), Callback()]
    together = default_callbacks(own)
    assert together[1:] == own
    _life(together[0], trial)
    assert "progress.csv" not in _files(trial.path)
    assert "result.json" in _files(trial.path)
    plan = types.SimpleNamespace(callbacks=[JsonLoggerCallback()])
    assert DefaultLogs(plan)._kinds == {"csv": True, "json": False, "tensorboard": True}
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    (silent,) = default_callbacks(None)
    assert silent._kinds == {"csv": False, "json": False, "tensorboard": False}


def test_callbacks_are_pickled_without_their_files(trial):
    for callback in (DefaultLogs(), CSVLoggerCallback()):
        callback.log_trial_start(trial)
        callback.log_trial_result(1, trial, {"loss": 1})
        again = pickle.loads(pickle.dumps(callback))
        again.log_trial_result(2, trial, {"loss": 2})
        again.log_trial_end(trial)
        callback.log_trial_end(trial)


def test_results_for_people():
    text = pretty_print(
        {"loss": 0.5, "config": {"lr": 1}, "none": None, "info": {"b": 2, "a": float("nan")}, "list": [1]}
    )
    assert text == "info:\n  a: .nan\n  b: 2\nlist: [1]\nloss: 0.5\n"
    assert "loss" not in pretty_print({"loss": 1, "x": 2}, exclude=["loss"])
