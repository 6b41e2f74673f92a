"""Experiments on real processes: what trials report, what ends them, what a restored experiment goes on with, where trials run."""

import os
import threading
import time
from pathlib import Path

import pytest
from tests.python.tune.trials import iterations, number_of, rows_of, save_number, start_of

from eagleray import cloudpickle, tune
from eagleray.tune.error import TuneError
from eagleray.tune.stopper import Stopper

pytestmark = pytest.mark.usefixtures("shared_ray")


@pytest.fixture
def run_config(tmp_path):
    """Makes the place of an experiment in the test's folder."""

    def make(**more):
        return tune.RunConfig(**{"name": "exp", "storage_path": str(tmp_path), "verbose": 0, **more})

    return make


# N1: what is reported.


def test_N1a_N1b_iterations_are_counted_and_the_last_result_is_not_doubled(run_config):
    def three(config):
        for step in range(3):
            tune.report({"x": step})

    [result] = tune.Tuner(three, run_config=run_config()).fit()
    rows = rows_of(result)
    assert [(row["x"], row["training_iteration"]) for row in rows] == [(0, 1), (1, 2), (2, 3)]
    assert result.metrics["training_iteration"] == 3
    assert result.metrics["x"] == 2
    assert result.metrics["done"] is True
    assert len(result.metrics_dataframe) == 3


def test_N1b_done_is_written_once(run_config):
    def many(config):
        for step in range(10):
            tune.report({"x": step})

    [result] = tune.Tuner(many, run_config=run_config(stop={"x": 4})).fit()
    assert [row["done"] for row in rows_of(result)] == [False] * 4 + [True]
    assert result.metrics["done"] is True


def test_N1b_a_trial_that_says_done_is_ended(run_config):
    def many(config):
        for step in range(10):
            tune.report({"x": step, "done": step == 2})

    [result] = tune.Tuner(many, run_config=run_config()).fit()
    assert [row["x"] for row in rows_of(result)] == [0, 1, 2]


def test_N1c_totals_are_summed_only_of_what_is_reported(run_config):
    def steps(config):
        for _ in range(3):
            tune.report({"timesteps_this_iter": 5} if config["what"] == "steps" else {"episodes_this_iter": 2})

    space = {"what": tune.grid_search(["steps", "episodes"])}
    by_steps, by_episodes = tune.Tuner(steps, param_space=space, run_config=run_config()).fit()
    assert [row["timesteps_total"] for row in rows_of(by_steps)] == [5, 10, 15]
    assert [row["episodes_total"] for row in rows_of(by_episodes)] == [2, 4, 6]
    assert "episodes_total" not in by_steps.metrics
    assert "timesteps_total" not in by_episodes.metrics


def test_N1d_what_is_returned_is_a_result(run_config):
    def returns(config):
        return config["value"]

    space = {"value": tune.grid_search([{"x": 7}, 7, 7.5])}
    by_dict, by_int, by_float = tune.Tuner(returns, param_space=space, run_config=run_config()).fit()
    assert by_dict.metrics["x"] == 7
    assert by_int.metrics["_metric"] == 7
    assert by_float.metrics["_metric"] == 7.5
    assert iterations(by_dict) == iterations(by_int) == [1]


def test_N1e_what_is_yielded_is_a_result(run_config):
    def yields(config):
        yield 5
        yield {"_metric": 6, "y": 1}

    [result] = tune.Tuner(yields, run_config=run_config()).fit()
    assert [row["_metric"] for row in rows_of(result)] == [5, 6]
    assert result.metrics["y"] == 1


def test_N1f_a_trial_that_reports_nothing_is_done(run_config):
    [result] = tune.Tuner(lambda config: None, run_config=run_config()).fit()
    assert result.error is None
    assert result.metrics["done"] is True
    assert rows_of(result) == []


def test_N1g_a_training_iteration_of_the_users_own_is_kept_and_no_result_is_lost(run_config):
    def own(config):
        for step in (0, 10, 10, 5):
            tune.report({"training_iteration": step})

    [result] = tune.Tuner(own, run_config=run_config()).fit()
    assert iterations(result) == [0, 10, 10, 5]


def test_N1h_older_ways_to_report_work(run_config, tmp_path):
    def keywords(config):
        tune.report(x=1)
        tune.track.log(x=2)

    def with_reporter(config, reporter):
        reporter(x=1)
        reporter(x=2)

    for at, function in enumerate((keywords, with_reporter)):
        analysis = tune.run(function, name=f"e{at}", storage_path=str(tmp_path), verbose=0)
        assert analysis.trials[0].last_result["x"] == 2
        assert analysis.trials[0].last_result["training_iteration"] == 2


def test_N1i_report_outside_of_a_trial_only_warns():
    with pytest.warns(UserWarning, match="outside of a trial"):
        tune.report({"x": 1})


# N2: what ends trials.


def endless(config):
    step = 0
    while True:
        step += 1
        tune.report({"x": step, "deep": {"y": 2 * step}})


class FirstThree(Stopper):
    """Ends each trial after three results."""

    def __call__(self, trial_id, result):
        return result["training_iteration"] >= 3

    def stop_all(self):
        return False


@pytest.mark.parametrize(
    "stop", [{"x": 3}, {"deep/y": 6}, {"deep": {"y": 6}}, lambda trial_id, result: result["x"] >= 3, FirstThree()]
)
@pytest.mark.parametrize("is_old", [False, True], ids=["fit", "run"])
def test_N2f_stop_ends_trials_of_both_apis(run_config, tmp_path, stop, is_old):
    if is_old:
        analysis = tune.run(endless, name="exp", storage_path=str(tmp_path), stop=stop, verbose=0)
        assert analysis.trials[0].last_result["x"] == 3
    else:
        [result] = tune.Tuner(endless, run_config=run_config(stop=stop)).fit()
        assert result.metrics["x"] == 3


def test_N2f_a_function_with_other_arguments_is_refused(run_config):
    with pytest.raises(TuneError, match=r"stop function is called with \(trial_id, result\)"):
        tune.Tuner(endless, run_config=run_config(stop=lambda result: True)).fit()


def test_N2f_stop_all_ends_the_experiment(run_config):
    class FirstTrial(Stopper):
        def __init__(self):
            self.is_over = False

        def __call__(self, trial_id, result):
            self.is_over = result["x"] >= 5
            return False

        def stop_all(self):
            return self.is_over

    config = tune.TuneConfig(num_samples=50, max_concurrent_trials=1)
    grid = tune.Tuner(endless, tune_config=config, run_config=run_config(stop=FirstTrial())).fit()
    assert len(grid) < 50
    assert grid.num_errors == 0


@pytest.mark.parametrize("is_old", [False, True], ids=["fit", "run"])
def test_N2g_a_time_budget_ends_the_experiment(run_config, tmp_path, is_old):
    if is_old:
        analysis = tune.run(
            endless, name="exp", storage_path=str(tmp_path), time_budget_s=0.3, num_samples=-1, verbose=0
        )
        trials = analysis.trials
    else:
        config = tune.TuneConfig(time_budget_s=0.3, num_samples=-1)
        grid = tune.Tuner(endless, tune_config=config, run_config=run_config()).fit()
        trials = grid._experiment_analysis.trials
    assert trials
    assert all(trial.status == "TERMINATED" for trial in trials)


def test_N2h_an_optimised_metric_that_is_missing_is_an_error(run_config, monkeypatch):
    config = tune.TuneConfig(metric="loss", mode="min")
    with pytest.raises(TuneError, match="`loss`"):
        tune.Tuner(endless, tune_config=config, run_config=run_config(stop={"x": 2})).fit()
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    [result] = tune.Tuner(endless, tune_config=config, run_config=run_config(stop={"x": 2}, name="other")).fit()
    assert result.metrics["x"] == 2


# N4: failures, checkpoints that are kept.


def fails_at_one(config):
    tune.report({"x": 1})
    if config["at"] == 1:
        raise ValueError("on purpose")


def test_N4j_fit_does_not_raise_for_failed_trials(run_config):
    space = {"at": tune.grid_search([0, 1, 2])}
    grid = tune.Tuner(fails_at_one, param_space=space, run_config=run_config()).fit()
    assert (grid.num_errors, grid.num_terminated) == (1, 2)
    assert isinstance(grid.errors[0], ValueError)
    assert "on purpose" in (Path(grid[1].path) / "error.txt").read_text()


def test_N4k_run_raises_for_failed_trials_unless_told_not_to(tmp_path):
    space = {"at": tune.grid_search([0, 1, 2])}
    options = {"config": space, "storage_path": str(tmp_path), "verbose": 0}
    with pytest.raises(TuneError, match="Trials did not complete.*fails_at_one_"):
        tune.run(fails_at_one, name="a", **options)
    analysis = tune.run(fails_at_one, name="b", raise_on_failed_trial=False, **options)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "ERROR", "TERMINATED"]


def test_N4l_only_so_many_checkpoints_are_kept_the_best_and_the_latest(run_config):
    def saves(config):
        for score in (3, 9, 1, 8, 2):
            tune.report({"score": score}, checkpoint=save_number(score))

    rule = tune.CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score")
    [result] = tune.Tuner(saves, run_config=run_config(checkpoint_config=rule)).fit()
    kept = {metrics["score"]: number_of(checkpoint) for checkpoint, metrics in result.best_checkpoints}
    assert kept == {9: 9, 8: 8, 2: 2}  # the trial would have gone on from the last one
    assert number_of(result.get_best_checkpoint("score", "max")) == 9
    assert number_of(result.checkpoint) == 2


class Counting(tune.Trainable):
    """Counts its steps, and saves the count."""

    def setup(self, config):
        self.x = 0

    def step(self):
        self.x += 1
        return {"x": self.x}

    def save_checkpoint(self, folder):
        Path(folder, "x").write_text(str(self.x))

    def load_checkpoint(self, folder):
        self.x = int(Path(folder, "x").read_text())


class SavesAt(tune.Callback):
    """Wants a checkpoint when one of these is reported."""

    def __init__(self, *wanted):
        self.wanted = wanted

    def on_trial_result(self, iteration, trials, trial, result, **info):
        if result["x"] in self.wanted:
            trial.checkpoint_now()


def saved_of(run_config, trainable, *wanted, **rule):
    given = run_config(stop={"x": 5}, callbacks=[SavesAt(*wanted)], checkpoint_config=tune.CheckpointConfig(**rule))
    [result] = tune.Tuner(trainable, run_config=given).fit()
    assert result.error is None
    return [(metrics["x"], checkpoint) for checkpoint, metrics in result.best_checkpoints]


def test_N8n_a_callback_may_have_a_class_saved(run_config):
    saved = saved_of(run_config, Counting, 2, 4, 5)
    assert [(x, Path(checkpoint.path, "x").read_text()) for x, checkpoint in saved] == [(2, "2"), (4, "4"), (5, "5")]


def test_N8n_it_is_saved_once_where_that_is_due_anyway(run_config):
    saved = saved_of(run_config, Counting, 2, 3, 5, checkpoint_frequency=2, checkpoint_at_end=True)
    assert [x for x, _ in saved] == [2, 3, 4, 5]


def test_N8n_of_a_function_the_latest_that_it_reported_stands(run_config):
    def saves(config):
        for x in range(1, 7):
            tune.report({"x": x}, checkpoint=save_number(x) if x == 1 else None)

    assert [(x, number_of(checkpoint)) for x, checkpoint in saved_of(run_config, saves, 2, 5)] == [(1, 1)]


def test_N4m_a_trial_is_tried_again_from_its_checkpoint(run_config):
    def fails_twice(config):
        for step in range(start_of(), 5):
            if step in (2, 4) and not os.path.exists(f"failed{step}"):
                Path(f"failed{step}").touch()
                raise RuntimeError("again")
            tune.report({"x": step}, checkpoint=save_number(step + 1))

    failures = tune.FailureConfig(max_failures=2)
    [result] = tune.Tuner(fails_twice, run_config=run_config(failure_config=failures)).fit()
    assert result.error is None
    assert [row["x"] for row in rows_of(result)] == [0, 1, 2, 3, 4]
    assert iterations(result) == [1, 2, 3, 4, 5]


def test_N4n_fail_fast_ends_the_experiment_and_may_raise(run_config):
    def fails(config):
        if config["at"] == 0:
            raise ValueError("the first")
        endless(config)

    space = {"at": tune.grid_search([0, 1, 2, 3])}
    fast = tune.FailureConfig(fail_fast=True)
    grid = tune.Tuner(fails, param_space=space, run_config=run_config(failure_config=fast)).fit()
    assert grid.num_errors == 1
    raising = tune.FailureConfig(fail_fast="raise")
    with pytest.raises(ValueError, match="the first"):
        tune.Tuner(fails, param_space=space, run_config=run_config(failure_config=raising, name="b")).fit()


# N7: where and how trials run.


def where(config):
    names = ("TUNE_ORIG_WORKING_DIR",)
    return {
        "cwd": os.getcwd(),
        "env": {name: os.environ.get(name) for name in names},
        "dir": tune.get_context().get_trial_dir(),
    }


def test_N7a_a_trial_runs_in_its_folder(run_config):
    [result] = tune.Tuner(where, run_config=run_config()).fit()
    assert result.metrics["cwd"] == result.path == result.metrics["dir"]
    assert result.metrics["env"]["TUNE_ORIG_WORKING_DIR"] == os.getcwd()


def test_N7a_unless_it_is_told_to_stay(run_config, monkeypatch):
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    [result] = tune.Tuner(where, run_config=run_config()).fit()
    assert result.metrics["cwd"] == os.getcwd()
    assert result.metrics["dir"] == result.path


def test_N7b_the_experiments_folder_has_its_name_or_the_functions(run_config, tmp_path, monkeypatch):
    assert Path(tune.Tuner(where, run_config=run_config(name="mine")).fit().experiment_path) == tmp_path / "mine"
    path = Path(tune.Tuner(where, run_config=run_config(name=None)).fit().experiment_path)
    assert path.parent == tmp_path
    assert path.name.startswith("where_20")
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "by variable"))
    path = Path(tune.Tuner(where, run_config=run_config(name="x", storage_path=None)).fit().experiment_path)
    assert path == tmp_path / "by variable" / "x"


def test_N7c_with_parameters_stores_big_objects_once(run_config):
    def size(config, data, more=0):
        tune.report({"size": len(data), "more": more})

    class Sized(tune.Trainable):
        def setup(self, config, data, more=0):
            self.answer = {"size": len(data), "more": more, "done": True}

        def step(self):
            return self.answer

    for at, trainable in enumerate((size, Sized)):
        dressed = tune.with_parameters(trainable, data=b"x" * 5_000_000, more=3)
        assert len(cloudpickle.dumps(dressed)) < 100_000
        config = tune.TuneConfig(num_samples=2)
        grid = tune.Tuner(dressed, tune_config=config, run_config=run_config(name=f"e{at}")).fit()
        assert [(result.metrics["size"], result.metrics["more"]) for result in grid] == [(5_000_000, 3)] * 2


@pytest.mark.parametrize(
    "resources",
    [{"cpu": 2}, lambda config: {"cpu": 2}, tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])],
    ids=["dict", "function", "bundles"],
)
@pytest.mark.parametrize("is_class", [False, True])
def test_N7d_with_resources_is_what_a_trial_gets(run_config, resources, is_class):
    def function(config):
        return {"got": tune.get_context().get_trial_resources().required_resources}

    class Class(tune.Trainable):
        def step(self):
            return {"done": True}

    trainable = tune.with_resources(Class if is_class else function, resources)
    grid = tune.Tuner(trainable, run_config=run_config()).fit()
    assert grid.num_errors == 0
    if not is_class:
        assert grid[0].metrics["got"] == {"CPU": 2.0}
    assert grid._experiment_analysis.trials[0].resources == {"CPU": 2.0}


def test_N7e_a_trainable_that_cannot_be_sent_is_refused_with_the_path_to_the_reason(run_config):
    lock = threading.Lock()

    def holds_a_lock(config):
        with lock:
            return 1

    with pytest.raises(TypeError, match="lock") as raised:
        tune.Tuner(holds_a_lock, run_config=run_config()).fit()
    assert "holds_a_lock" in str(raised.value)


def alone(config):
    folder = Path(config["folder"])
    mine = folder / tune.get_context().get_trial_id()
    mine.touch()
    seen = 0
    for _ in range(3):
        seen = max(seen, len(list(folder.iterdir())))
        time.sleep(0.002)
        tune.report({"seen": seen})
    mine.unlink()


def test_N7f_no_more_trials_run_at_once_than_allowed(run_config, tmp_path):
    folder = tmp_path / "running"
    folder.mkdir()
    config = tune.TuneConfig(num_samples=5, max_concurrent_trials=1)
    grid = tune.Tuner(alone, param_space={"folder": str(folder)}, tune_config=config, run_config=run_config()).fit()
    assert [result.metrics["seen"] for result in grid] == [1] * 5
    with pytest.raises(ValueError, match="max_concurrent_trials"):
        tune.Tuner(alone, tune_config=tune.TuneConfig(max_concurrent_trials=-1), run_config=run_config()).fit()


class Resettable(tune.Trainable):
    """Says how often it was reset, and in which process it is."""

    def setup(self, config):
        self.resets = 0
        self.answer = config["x"]

    def step(self):
        return {"resets": self.resets, "x": self.answer, "process": os.getpid(), "name": self.trial_id, "done": True}

    def reset_config(self, new_config):
        if not new_config.get("can", True):
            return False
        self.resets += 1
        self.answer = new_config["x"]
        return True


def used_again(run_config, *, reuse, **space):
    config = tune.TuneConfig(max_concurrent_trials=1, reuse_actors=reuse)
    space = {"x": tune.grid_search([10, 20, 30]), **space}
    grid = tune.Tuner(Resettable, param_space=space, tune_config=config, run_config=run_config()).fit()
    assert [result.metrics["x"] for result in grid] == [10, 20, 30]
    assert [iterations(result) for result in grid] == [[1]] * 3
    assert [result.metrics["name"] for result in grid] == [result.metrics["trial_id"] for result in grid]
    return [result.metrics["resets"] for result in grid]


def test_N7g_an_actor_is_used_again_if_reset_config_can(run_config):
    assert used_again(run_config, reuse=True) == [0, 1, 2]


def test_N7g_an_actor_is_not_used_again_unless_asked_for(run_config):
    assert used_again(run_config, reuse=False) == [0, 0, 0]


def test_N7g_a_class_that_cannot_be_reset_is_built_anew(run_config):
    assert used_again(run_config, reuse=True, can=False) == [0, 0, 0]
