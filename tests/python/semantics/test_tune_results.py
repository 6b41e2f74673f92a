"""Rule N4: what is asked of an experiment's results. The trials are made by hand, as the engine leaves them."""

import json
import math
import shutil

import pytest

from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune.analysis import ExperimentAnalysis
from eagleray.tune.analysis._history import analyse
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.result import AUTO_RESULT_KEYS, Result
from eagleray.tune.result_grid import ResultGrid

pytest.importorskip("pandas")


def trial_of(folder, number, values, *, name="metric", status=Trial.TERMINATED, error=None, with_checkpoints=False):
    """A trial with one result for each value, in a folder of its own."""
    path = folder / f"train_abcde_{number:05d}_{number}"
    path.mkdir(parents=True)
    config = {"nested": {"param": number}}
    trial = Trial("train", number=number, trial_id=f"abcde_{number:05d}", config=config, path=path)
    rows = [{name: value, "training_iteration": at, "trial_id": trial.trial_id} for at, value in enumerate(values, 1)]
    if with_checkpoints:
        for at, row in enumerate(rows):
            row["checkpoint_dir_name"] = f"checkpoint_{at:06d}"
            (path / row["checkpoint_dir_name"]).mkdir()
            trial.checkpoint = Checkpoint(str(path / row["checkpoint_dir_name"]))
    (path / "params.json").write_text(json.dumps(config))
    (path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if error is not None:
        (path / "error.txt").write_text(str(error))
    trial.last_result = rows[-1] if rows else {}
    trial.metric_analysis = analyse(rows)
    trial.status, trial.error = status, error
    return trial


def grid_of(folder, *series, metric=None, mode=None):
    return ResultGrid(
        ExperimentAnalysis(folder, [trial_of(folder, at, values) for at, values in enumerate(series)], metric, mode)
    )


@pytest.mark.parametrize("arguments", [{}, {"metric": "metric"}, {"mode": "max"}])
def test_N4a_several_trials_need_a_metric_and_a_mode(tmp_path, arguments):
    grid = grid_of(tmp_path, [1], [2])
    missing = "mode" if "metric" in arguments else "metric"
    with pytest.raises(ValueError, match=f"No {missing} is provided"):
        grid.get_best_result(**arguments)


def test_N4a_the_experiment_may_name_them(tmp_path):
    assert grid_of(tmp_path, [1], [2], metric="metric", mode="min").get_best_result().metrics["metric"] == 1


def test_N4a_one_trial_needs_neither(tmp_path):
    assert grid_of(tmp_path, [1]).get_best_result().metrics["metric"] == 1


def test_N4b_a_metric_that_nobody_reported_has_no_best_trial(tmp_path):
    with pytest.raises(RuntimeError, match="No best trial found for the given metric: other"):
        grid_of(tmp_path, [1], [2]).get_best_result("other", "max")


def test_N4b_nan_and_infinity_are_passed_over_unless_asked_for(tmp_path):
    grid = grid_of(tmp_path, [math.nan], [math.inf])
    with pytest.raises(RuntimeError, match="set the `filter_nan_and_inf` arg to False"):
        grid.get_best_result("metric", "max")
    assert grid.get_best_result("metric", "max", filter_nan_and_inf=False) is grid[1]


def test_N4b_a_finite_value_wins_over_infinity(tmp_path):
    grid = grid_of(tmp_path, [math.inf], [1], [math.nan])
    assert grid.get_best_result("metric", "max") is grid[1]


@pytest.mark.parametrize(
    ("scope", "mode", "best"),
    [
        ("last", "max", 2),
        ("all", "max", 0),
        ("avg", "max", 1),
        ("last-2-avg", "max", 2),
        ("last-5-avg", "max", 1),
        ("all", "min", 0),
    ],
)
def test_N4c_scope_says_which_value_counts(tmp_path, scope, mode, best):
    grid = grid_of(tmp_path, [9, 0, 0], [4, 4, 4], [1, 4.5, 5])
    assert grid.get_best_result("metric", mode, scope) is grid[best]


def test_N4d_a_row_for_each_trial_that_reported(tmp_path):
    grid = grid_of(tmp_path, [1, 4, 3], [2, 8, 6], [])
    assert len(grid) == 3
    assert list(grid.get_dataframe()["metric"]) == [3, 6]
    assert list(grid.get_dataframe(filter_metric="metric", filter_mode="max")["metric"]) == [4, 8]
    assert list(grid.get_dataframe(filter_metric="metric", filter_mode="min")["metric"]) == [1, 2]


def test_N4e_nested_parameters_are_columns(tmp_path):
    assert list(grid_of(tmp_path, [1], [2]).get_dataframe()["config/nested/param"]) == [0, 1]


def test_N4f_how_the_trials_ended(tmp_path):
    error = ValueError("no")
    ends = [Trial.TERMINATED, Trial.ERROR, Trial.RUNNING, Trial.ERROR, Trial.PENDING]
    trials = [
        trial_of(tmp_path, at, [1], status=end, error=error if end == Trial.ERROR else None)
        for at, end in enumerate(ends)
    ]
    grid = ResultGrid(ExperimentAnalysis(tmp_path, trials))
    assert (grid.errors, grid.num_errors, grid.num_terminated) == ([error, error], 2, 1)
    assert [result.error for result in grid] == [None, error, None, error, None]


def test_N4f_so_does_the_folder_alone(tmp_path):
    for at, error in enumerate([None, ValueError("no"), None]):
        trial_of(tmp_path, at, [1], error=error)
    grid = ResultGrid(ExperimentAnalysis(tmp_path))
    assert (len(grid.errors), grid.num_errors, grid.num_terminated) == (1, 1, 2)


def test_N4g_the_text_of_a_grid(tmp_path):
    trials = [trial_of(tmp_path, 0, [1.0], name="loss"), trial_of(tmp_path, 1, [2.0], name="loss")]
    trials[0].checkpoint = Checkpoint("/tmp/ckpt1")
    trials[1].status, trials[1].error = Trial.ERROR, RuntimeError()
    for trial in trials:
        trial.last_result.update(dict.fromkeys(AUTO_RESULT_KEYS, 7))
    text = repr(ResultGrid(ExperimentAnalysis(tmp_path, trials)))
    assert text == (
        "ResultGrid<[\n"
        "  Result(\n"
        "    metrics={'loss': 1.0},\n"
        f"    path='{tmp_path}/train_abcde_00000_0',\n"
        "    filesystem='local',\n"
        "    checkpoint=Checkpoint(filesystem=local, path=/tmp/ckpt1)\n"
        "  ),\n"
        "  Result(\n"
        "    error='RuntimeError',\n"
        "    metrics={'loss': 2.0},\n"
        f"    path='{tmp_path}/train_abcde_00001_1',\n"
        "    filesystem='local',\n"
        "    checkpoint=None\n"
        "  )\n"
        "]>"
    )


def test_N4g_the_text_of_a_result(tmp_path):
    grid = grid_of(tmp_path, [3])
    assert (
        repr(grid[0])
        == f"Result(\n  metrics={{'metric': 3}},\n  path='{grid[0].path}',\n  filesystem='local',\n  checkpoint=None\n)"
    )


def test_N4h_best_checkpoints_have_the_metrics_that_they_came_with(tmp_path):
    trial = trial_of(tmp_path, 0, [3, 1, 2, 5], with_checkpoints=True)
    # As num_to_keep leaves them.
    (trial.path / "checkpoint_000000").rmdir()
    (trial.path / "checkpoint_000002").rmdir()
    result = ResultGrid(ExperimentAnalysis(tmp_path, [trial]))[0]
    assert [
        (checkpoint.path.rsplit("/", 1)[1], metrics["metric"]) for checkpoint, metrics in result.best_checkpoints
    ] == [
        ("checkpoint_000001", 1),
        ("checkpoint_000003", 5),
    ]
    assert result.get_best_checkpoint("metric", "min").path.endswith("checkpoint_000001")


def test_N4i_a_moved_experiment_is_read_where_it_is_now(tmp_path):
    for at in range(2):
        trial_of(tmp_path / "old" / "experiment", at, [3, 1], with_checkpoints=True)
    shutil.move(tmp_path / "old", tmp_path / "moved")
    grid = ResultGrid(ExperimentAnalysis(str(tmp_path / "moved" / "experiment")))
    assert len(grid) == 2
    for result in grid:
        assert "/moved/" in result.path
        assert "/moved/" in result.checkpoint.path
        assert len(result.best_checkpoints) == 2
        assert Result.from_path(result.path).metrics["metric"] == 1
