"""What is read from trials' folders, and what is asked of an experiment's trials. No processes here: trials are made by hand."""

import json
import math
import pickle
import sys

import pytest

from eagleray._native import tune as native
from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune.analysis import Analysis, ExperimentAnalysis
from eagleray.tune.analysis._history import History, analyse, flatten, is_number
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.metrics import look_up
from eagleray.tune.result import AUTO_RESULT_KEYS, Result
from eagleray.tune.result_grid import ResultGrid

pd = pytest.importorskip("pandas")


def make_trial(folder, number, rows, *, config=None, status=Trial.TERMINATED, error=None, files=True, checkpoints=()):
    """A trial as the engine would leave it. `checkpoints` are the iterations that one came with."""
    path = folder / f"train_abcde_{number:05d}_{number}_x={number}"
    trial = Trial(
        "train",
        number=number,
        trial_id=f"abcde_{number:05d}",
        config={"x": number} if config is None else config,
        path=path,
    )
    full = []
    for iteration, row in enumerate(rows, 1):
        one = {
            **row,
            "training_iteration": iteration,
            "trial_id": trial.trial_id,
            "time_total_s": 0.5 * iteration,
            "done": False,
        }
        one |= {"timestamp": 1000 + number * 10 + iteration}
        if iteration in checkpoints:
            one["checkpoint_dir_name"] = f"checkpoint_{iteration - 1:06d}"
            (path / one["checkpoint_dir_name"]).mkdir(parents=True)
        full.append(one)
    trial.last_result = full[-1] if full else {}
    trial.metric_analysis = analyse(full)
    trial.status = status
    trial.error = error
    if files:
        path.mkdir(parents=True, exist_ok=True)
        (path / "params.json").write_text(json.dumps(trial.config))
        (path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in full))
        if error is not None:
            (path / "error.txt").write_text(f"Traceback\n{error!r}\n")
    return trial


def series(*values, name="loss"):
    return [{name: value} for value in values]


# Values and rows.


def test_nested_rows_become_flat_ones_and_an_empty_part_stays():
    assert flatten({"a": {"b": {"c": 1}, "d": {}}, "e": [1]}) == {"a/b/c": 1, "a/d": {}, "e": [1]}


def test_a_nested_metric_is_found_by_its_path_and_a_key_with_a_slash_by_its_name():
    row = {"a": {"b": 1}, "a/c": 2, "d": 3}
    assert [look_up(row, key) for key in ("a/b", "a/c", "d", "a/x", "d/e", "x")] == [1, 2, 3, None, None, None]


def test_numbers_are_ints_floats_and_numpy_scalars_but_no_bools():
    np = pytest.importorskip("numpy")
    assert all(is_number(value) for value in (1, 1.5, math.nan, np.float32(1), np.int64(2)))
    assert not any(is_number(value) for value in (True, None, "1", [1], np.array([1.0]), {}))


def test_a_summary_passes_over_nan_for_the_extremes_only():
    summary = analyse(series(1.0, math.nan, 3.0))["loss"]
    assert (summary["max"], summary["min"], summary["last"]) == (3.0, 1.0, 3.0)
    assert math.isnan(summary["avg"])
    assert math.isnan(analyse(series(math.nan))["loss"]["max"])


def test_a_summary_takes_no_parameter_for_a_metric():
    assert set(analyse([{"loss": 1, "config": {"lr": 0.1}, "name": "x", "flag": True, "n": {"m": 2}}])) == {
        "loss",
        "n/m",
    }


def test_a_torn_last_line_is_passed_over(tmp_path):
    # A line separator of Unicode inside a string ends no line.
    (tmp_path / "result.json").write_text(
        '{"loss": 1, "note": "a\u2028b"}\n{"loss": NaN}\n{"loss": 3, "tra', encoding="utf-8"
    )
    rows = History(tmp_path).rows()
    assert len(rows) == 2
    assert rows[0]["note"] == "a\u2028b"
    assert math.isnan(rows[1]["loss"])


def test_without_json_the_csv_is_read_with_types(tmp_path):
    (tmp_path / "progress.csv").write_text("loss,done,name,n/m,empty\n0.5,False,a,3,\n-inf,True,,4,\n")
    assert History(tmp_path).rows() == [
        {"loss": 0.5, "done": False, "name": "a", "n/m": 3, "empty": None},
        {"loss": -math.inf, "done": True, "name": None, "n/m": 4, "empty": None},
    ]
    assert History(tmp_path).rows("json") == []
    assert look_up(History(tmp_path).rows()[0], "n/m") == 3


# One result.


def test_a_result_is_read_back_from_its_folder(tmp_path):
    trial = make_trial(tmp_path, 0, series(3.0, 1.0, 2.0), checkpoints=(1, 2, 3))
    result = Result.from_path(trial.path)
    assert result.metrics["loss"] == 2.0
    assert result.config == {"x": 0} == result.metrics["config"]
    assert result.error is None
    assert result.path == str(trial.path)
    assert result.filesystem.type_name == "local"
    assert list(result.metrics_dataframe["loss"]) == [3.0, 1.0, 2.0]
    assert result.checkpoint.path.endswith("checkpoint_000002")
    assert [row["loss"] for _, row in result.best_checkpoints] == [3.0, 1.0, 2.0]
    assert result.get_best_checkpoint("loss", "min").path.endswith("checkpoint_000001")
    assert result.get_best_checkpoint("loss", "max").path.endswith("checkpoint_000000")


def test_checkpoints_that_were_deleted_are_not_listed(tmp_path):
    trial = make_trial(tmp_path, 0, series(3.0, 1.0, 2.0), checkpoints=(1, 2, 3))
    (trial.path / "checkpoint_000001").rmdir()
    (trial.path / "checkpoint_tmpabc").mkdir()
    assert [row["loss"] for _, row in Result.from_path(trial.path).best_checkpoints] == [3.0, 2.0]


def test_a_class_that_was_saved_between_two_results_belongs_to_the_one_before(tmp_path):
    """No result names it: its own counters do."""
    trial = make_trial(tmp_path, 0, series(3.0, 1.0, 2.0))
    (trial.path / "checkpoint_000000").mkdir()
    (trial.path / "checkpoint_000000" / ".tune_metadata").write_text('{"iteration": 2}')
    (trial.path / "checkpoint_000001").mkdir()
    (trial.path / "checkpoint_000001" / ".tune_metadata").write_text("torn")
    assert [row.get("loss") for _, row in History(trial.path).checkpoints()] == [1.0, None]


def test_the_best_checkpoint_needs_a_metric_that_came_with_one(tmp_path):
    trial = make_trial(tmp_path, 0, series(3.0, math.nan), checkpoints=(1, 2))
    result = Result.from_path(trial.path)
    assert result.get_best_checkpoint("loss", "max").path.endswith("checkpoint_000000")
    with pytest.raises(RuntimeError, match="Invalid metric name acc"):
        result.get_best_checkpoint("acc", "max")
    with pytest.raises(ValueError, match="Unsupported mode: best"):
        result.get_best_checkpoint("loss", "best")
    assert Result.from_path(make_trial(tmp_path, 1, series(1.0)).path).get_best_checkpoint("loss", "max") is None


def test_a_folder_without_results_is_no_result(tmp_path):
    with pytest.raises(RuntimeError, match="doesn't exist"):
        Result.from_path(tmp_path / "nowhere")
    with pytest.raises(RuntimeError, match=r"Neither result.json nor progress.csv exists"):
        Result.from_path(tmp_path)


def test_the_error_of_a_folder_is_itself_if_it_was_kept_and_its_text_otherwise(tmp_path):
    trial = make_trial(tmp_path, 0, series(1.0), error=ZeroDivisionError("by nought"))
    assert "by nought" in str(Result.from_path(trial.path).error)
    (trial.path / "error.pkl").write_bytes(pickle.dumps(ZeroDivisionError("by nought")))
    assert isinstance(Result.from_path(trial.path).error, ZeroDivisionError)
    (trial.path / "error.pkl").write_bytes(b"cgone_module\nGone\n.")
    assert isinstance(Result.from_path(trial.path).error, RuntimeError)


def test_a_results_text_hides_what_tune_added():
    metrics = {"loss": 1, **dict.fromkeys(AUTO_RESULT_KEYS, 0), "trial_id": "a", "done": True}
    text = repr(Result(metrics=metrics, path="log", error=KeyError("k")))
    assert (
        text
        == "Result(\n  error='KeyError',\n  metrics={'loss': 1},\n  path='log',\n  filesystem='local',\n  checkpoint=None\n)"
    )


def test_a_result_can_be_pickled(tmp_path):
    grid = ResultGrid(ExperimentAnalysis(tmp_path, [make_trial(tmp_path, 0, series(1.0))]))
    copy = pickle.loads(pickle.dumps(grid))
    assert copy[0].metrics == grid[0].metrics
    assert len(copy[0].metrics_dataframe) == 1


# An experiment, from trials at hand or from its folder.


@pytest.fixture(params=["trials", "folder"])
def analysis(request, tmp_path):
    """Three trials; the middle one ended best, the last one was best on its way."""
    trials = [
        make_trial(tmp_path, 0, series(5.0, 4.0, 3.0), config={"x": 0, "net": {"units": 8, "deep": {"k": 1}}}),
        make_trial(
            tmp_path,
            1,
            series(5.0, 3.0, 1.0),
            config={"x": 1, "net": {"units": 16, "deep": {"k": 2}}},
            checkpoints=(1, 3),
        ),
        make_trial(tmp_path, 2, series(0.5, 6.0, 9.0), config={"x": 2, "net": {"units": 32, "deep": {"k": 3}}}),
    ]
    if request.param == "trials":
        return ExperimentAnalysis(tmp_path, trials, "loss", "min")
    return ExperimentAnalysis(str(tmp_path), default_metric="loss", default_mode="min")


def test_the_best_trial_is_chosen_by_scope(analysis):
    scopes = {"last": 1, "avg": 1, "all": 2, "last-2-avg": 1, "last-5-avg": 1, "last-10-avg": 1, "last-3-avg": 1}
    assert {scope: analysis.get_best_trial(scope=scope).number for scope in scopes} == scopes
    assert analysis.get_best_trial("loss", "max", "all").number == 2
    assert analysis.get_best_trial("loss", "max", "last-1-avg").number == 2
    with pytest.raises(ValueError, match="for scope first not in"):
        analysis.get_best_trial(scope="first")


def test_what_belongs_to_the_best_trial(analysis, tmp_path):
    assert analysis.best_trial.trial_id == "abcde_00001"
    assert (
        analysis.best_config
        == {"x": 1, "net": {"units": 16, "deep": {"k": 2}}}
        == analysis.get_best_config("loss", "min")
    )
    assert analysis.best_logdir == str(tmp_path / "train_abcde_00001_1_x=1") == analysis.get_best_logdir("loss", "min")
    assert analysis.best_result["loss"] == 1.0
    assert analysis.best_result_df.loc["abcde_00001", "loss"] == 1.0
    assert list(analysis.best_dataframe["loss"]) == [5.0, 3.0, 1.0]
    assert analysis.best_checkpoint.path.endswith("checkpoint_000002")
    assert analysis.get_best_checkpoint(analysis.best_trial, "loss", "max").path.endswith("checkpoint_000000")
    assert analysis.get_last_checkpoint(analysis.best_trial).path.endswith("checkpoint_000002")
    assert analysis.get_last_checkpoint("abcde_00001").path.endswith("checkpoint_000002")
    paths = analysis.get_trial_checkpoints_paths(analysis.best_logdir, "training_iteration")
    assert [(path.rsplit("/", 1)[1], value) for path, value in paths] == [
        ("checkpoint_000000", 1),
        ("checkpoint_000002", 3),
    ]
    assert analysis.get_best_checkpoint("abcde_00000", "loss", "min") is None
    with pytest.raises(ValueError, match="no trial 'nobody'"):
        analysis.get_best_checkpoint("nobody", "loss", "min")


def test_data_frames(analysis):
    last = analysis.dataframe()
    assert list(last["loss"]) == [3.0, 1.0, 9.0]
    assert list(last["config/net/deep/k"]) == [1, 2, 3]
    assert list(last["config/x"]) == [0, 1, 2]
    assert list(last["logdir"]) == [trial.local_path for trial in analysis.trials]
    assert list(analysis.dataframe("loss", "min")["loss"]) == [3.0, 1.0, 0.5]
    assert list(analysis.dataframe("loss", "max")["training_iteration"]) == [1, 1, 3]
    assert analysis.dataframe("nothing", "max").empty
    assert analysis.results_df.loc["abcde_00002", "loss"] == 9.0
    assert analysis.results["abcde_00000"]["loss"] == 3.0
    frames = analysis.trial_dataframes
    assert len(frames) == 3
    # By id, as today, and by folder, as before.
    assert frames["abcde_00002"] is frames[analysis.trials[2].local_path]
    assert "nothing" not in frames
    assert frames.get("nothing") is None
    with pytest.raises(KeyError):
        frames["nothing"]
    with pytest.raises(ValueError, match="you'll also have to pass a `metric`"):
        analysis.dataframe(mode="max")
    with pytest.raises(ValueError, match="has to be one of"):
        analysis.dataframe("loss", "best")


def test_frames_are_read_again_on_request(analysis):
    assert len(analysis.trial_dataframes["abcde_00000"]) == 3
    with (analysis.trials[0].path / "result.json").open("a") as file:
        file.write('{"loss": 0.1}\n')
    assert len(analysis.trial_dataframes["abcde_00000"]) == 3
    assert len(analysis.fetch_trial_dataframes()["abcde_00000"]) == 4
    assert len(analysis.trial_dataframes["abcde_00000"]) == 4
    assert analysis.set_filetype("csv")
    assert analysis.trial_dataframes["abcde_00000"].empty
    with pytest.raises(ValueError, match="must be None, 'json', or 'csv'"):
        analysis.set_filetype("xml")


def test_configs_stats_and_the_run(analysis, tmp_path):
    assert analysis.get_all_configs()["abcde_00001"]["net"]["units"] == 16
    assert analysis.get_all_configs(prefix=True)["abcde_00001"]["config/net/units"] == 16
    assert analysis.stats() == {"start_time": 1003 - 1.5, "timestamp": 1023}
    assert analysis.runner_data() == {"_local_checkpoint_dir": str(tmp_path)}
    assert analysis.experiment_path == str(tmp_path)


def test_metric_and_mode_must_be_named_somewhere(tmp_path):
    trials = [make_trial(tmp_path, 0, series(1.0)), make_trial(tmp_path, 1, series(2.0))]
    analysis = ExperimentAnalysis(tmp_path, trials)
    for name in (
        "best_trial",
        "best_config",
        "best_logdir",
        "best_checkpoint",
        "best_dataframe",
        "best_result",
        "best_result_df",
    ):
        with pytest.raises(
            ValueError, match=r"To fetch the `best_\w+`, pass a `metric` and `mode` parameter to `tune.run\(\)`"
        ):
            getattr(analysis, name)
    with pytest.raises(ValueError, match="No `metric` has been passed"):
        analysis.get_best_config()
    with pytest.raises(ValueError, match="No `mode` has been passed"):
        analysis.get_best_config("loss")
    with pytest.raises(ValueError, match="`mode` has to be one of"):
        analysis.get_best_config("loss", "best")
    with pytest.raises(ValueError, match="`mode` has to be one of"):
        ExperimentAnalysis(tmp_path, trials, "loss", "best")
    assert ExperimentAnalysis(tmp_path, trials, default_mode="min").default_metric == "_metric"
    assert analysis.get_best_config("loss", "max") == {"x": 1}


def test_no_trial_with_the_metric_is_no_best_trial(tmp_path, caplog):
    trials = [
        make_trial(tmp_path, 0, series(math.nan)),
        make_trial(tmp_path, 1, series(math.inf)),
        make_trial(tmp_path, 2, []),
    ]
    analysis = ExperimentAnalysis(tmp_path, trials, "loss", "min")
    assert analysis.get_best_trial() is None
    assert "Could not find best trial" in caplog.text
    assert analysis.best_config is None
    assert analysis.get_best_trial(filter_nan_and_inf=False).number == 1
    with pytest.raises(ValueError, match=r"correct default metric \(loss\) and mode \(min\)"):
        analysis.best_result  # noqa: B018


def test_results_may_come_from_a_function(tmp_path):
    trials = [make_trial(tmp_path, number, series(1.0, 2.0, 3.0), files=False) for number in range(2)]
    rows = {0: series(1.0, 2.0, 3.0), 1: series(0.0, 9.0, 3.0)}
    analysis = ExperimentAnalysis(None, trials, "loss", "max", history=lambda trial: rows[trial.number])
    assert list(analysis.dataframe("loss", "max")["loss"]) == [3.0, 9.0]
    assert analysis.get_best_trial(scope="last-2-avg").number == 1
    assert len(analysis.trial_dataframes["abcde_00001"]) == 3
    assert analysis.experiment_path is None


def test_checkpoints_may_come_from_a_function(tmp_path):
    trials = [make_trial(tmp_path, number, series(1.0, 2.0)) for number in range(2)]
    kept = [(Checkpoint("/a"), {"loss": 2.0}), (Checkpoint("/b"), {"loss": 1.0})]
    analysis = ExperimentAnalysis(None, trials, "loss", "min", checkpoints=lambda trial: kept)
    assert analysis.best_checkpoint.path == "/b"
    assert ResultGrid(analysis)[0].best_checkpoints == kept


def test_trials_without_a_record_show_their_last_result(tmp_path):
    trials = [make_trial(tmp_path, 0, series(1.0, 2.0), files=False), make_trial(tmp_path, 1, [], files=False)]
    assert list(ExperimentAnalysis(None, trials).dataframe()["loss"]) == [2.0]


def test_a_folder_tells_who_failed_and_who_ended(tmp_path):
    make_trial(tmp_path, 0, series(1.0))
    make_trial(tmp_path, 1, series(1.0), error=ValueError("bad"))
    make_trial(tmp_path, 2, [])
    again = make_trial(tmp_path, 10, series(1.0), error=ValueError("bad"))
    with (again.path / "result.json").open("a") as file:
        file.write('{"loss": 0.5, "done": true}\n')
    (tmp_path / "not_a_trial").mkdir()
    analysis = Analysis(tmp_path)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "ERROR", "PENDING", "TERMINATED"]
    assert [trial.number for trial in analysis.trials] == [0, 1, 2, 10]
    assert analysis.trials[1].trainable_name == "train"
    assert "bad" in str(analysis.trials[1].error)


def test_the_journal_tells_who_was_cut_off(tmp_path):
    """Killed while it ran, a trial has results and no error, as one that has ended."""
    trials = [make_trial(tmp_path, number, series(1.0)) for number in range(2)]
    with native.Journal(tmp_path / "journal.eagleray") as journal:
        journal.append("experiment", {"name": "exp", "trainable": "train"})
        for trial, status in zip(trials, ("RUNNING", "TERMINATED"), strict=True):
            journal.append("trial", {"number": trial.number, "id": trial.trial_id, "folder": trial.path.name})
            journal.append("status", {"number": trial.number, "status": status})
    assert [trial.status for trial in ExperimentAnalysis(tmp_path).trials] == ["RUNNING", "TERMINATED"]


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        ExperimentAnalysis(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="No trial found in"):
        ExperimentAnalysis(tmp_path)
    with pytest.raises(ValueError, match="neither is given"):
        ExperimentAnalysis()


def test_a_file_in_the_folder_stands_for_the_folder(tmp_path):
    make_trial(tmp_path, 0, series(1.0))
    (tmp_path / "experiment_state.json").write_text("{}")
    assert len(ExperimentAnalysis(tmp_path / "experiment_state.json").trials) == 1


def test_without_pandas_frames_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    analysis = ExperimentAnalysis(tmp_path, [make_trial(tmp_path, 0, series(1.0))])
    assert analysis.results["abcde_00000"]["loss"] == 1.0
    for ask in (analysis.dataframe, analysis.fetch_trial_dataframes, lambda: analysis.results_df):
        with pytest.raises(ImportError, match=r"needs pandas: pip install 'eagleray\[tune\]'"):
            ask()


def test_no_trial_at_all(tmp_path):
    analysis = ExperimentAnalysis(tmp_path, [], "loss", "min")
    assert analysis.dataframe().empty
    assert analysis.results_df.empty
    grid = ResultGrid(analysis)
    assert len(grid) == 0
    assert repr(grid) == "ResultGrid<[\n\n]>"
    with pytest.raises(RuntimeError, match="No best trial found for the given metric: loss"):
        grid.get_best_result()


def test_checkpoint_of_a_trial_is_the_results(tmp_path):
    trial = make_trial(tmp_path, 0, series(1.0))
    trial.checkpoint = Checkpoint("/tmp/somewhere")
    assert ResultGrid(ExperimentAnalysis(tmp_path, [trial]))[0].checkpoint is trial.checkpoint
