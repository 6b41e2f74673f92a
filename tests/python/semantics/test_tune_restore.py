"""Experiments that go on where another run of them was, on real processes."""

import shutil
from pathlib import Path

import pytest
from tests.python.tune.trials import iterations, number_of, rows_of, save_number, start_of

from eagleray import tune
from eagleray.tune.search import Searcher

pytestmark = pytest.mark.usefixtures("shared_ray")


@pytest.fixture
def run_config(tmp_path):
    """Makes the place of an experiment in the test's folder."""

    def make(**more):
        return tune.RunConfig(**{"name": "exp", "storage_path": str(tmp_path), "verbose": 0, **more})

    return make


def two_and_a_failure(config):
    """Two results a run; trials 1 and 3 fail behind them as long as there is a file `fail`."""
    start = start_of()
    for step in range(start, start + 2 if config["fails"] else 2):
        tune.report({"it": step + 1}, checkpoint=save_number(step + 1))
        if config["fails"] and step + 1 == 2 and (Path(config["folder"]) / "fail").exists():
            raise RuntimeError("on purpose")


def failed_experiment(run_config, tmp_path, **more):
    (tmp_path / "fail").touch()
    space = {"fails": tune.grid_search([False, True, False, True]), "folder": str(tmp_path)}
    grid = tune.Tuner(two_and_a_failure, param_space=space, run_config=run_config(**more)).fit()
    assert grid.num_errors == 2
    (tmp_path / "fail").unlink()
    return tmp_path / "exp"


def test_N5a_N5b_failed_trials_go_on_from_their_checkpoints(run_config, tmp_path):
    folder = failed_experiment(run_config, tmp_path)
    grid = tune.Tuner.restore(str(folder), two_and_a_failure, resume_errored=True).fit()
    assert len(grid) == 4
    assert grid.num_errors == 0
    assert [result.metrics["it"] for result in grid] == [2, 4, 2, 4]
    assert [iterations(result) for result in grid] == [[1, 2], [1, 2, 3, 4]] * 2


def test_N5a_N5c_failed_trials_begin_from_scratch(run_config, tmp_path):
    folder = failed_experiment(run_config, tmp_path)
    grid = tune.Tuner.restore(str(folder), two_and_a_failure, restart_errored=True).fit()
    assert len(grid) == 4
    assert grid.num_errors == 0
    assert [result.metrics["it"] for result in grid] == [2, 2, 2, 2]
    assert [iterations(result) for result in grid] == [[1, 2]] * 4
    # Once more: what was forgotten stays so.
    again = tune.Tuner.restore(str(folder), two_and_a_failure).fit()
    assert [iterations(result) for result in again] == [[1, 2]] * 4


def test_N5a_failed_trials_stay_failed_unless_asked_for(run_config, tmp_path):
    folder = failed_experiment(run_config, tmp_path)
    grid = tune.Tuner.restore(str(folder), two_and_a_failure).fit()
    assert len(grid) == 4
    assert grid.num_errors == 2
    assert [result.metrics["it"] for result in grid] == [2, 2, 2, 2]


class Interrupts(tune.Callback):
    """Ends the experiment from outside, after so many results."""

    def __init__(self, count):
        self.count = count

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.count -= 1
        if self.count == 0:
            raise KeyboardInterrupt


def four(config):
    for step in range(start_of(), 4):
        tune.report({"x": config["x"], "it": step + 1}, checkpoint=save_number(step + 1))


def interrupted(run_config, count=6, **more):
    space = {"x": tune.grid_search([1, 2, 3, 4])}
    config = tune.TuneConfig(metric="x", mode="max", max_concurrent_trials=2)
    tuner = tune.Tuner(
        four, param_space=space, tune_config=config, run_config=run_config(callbacks=[Interrupts(count)], **more)
    )
    with pytest.raises(KeyboardInterrupt):
        tuner.fit()


def test_N5d_unfinished_trials_go_on_by_default(run_config, tmp_path):
    interrupted(run_config)
    tuner = tune.Tuner.restore(str(tmp_path / "exp"), four)
    tuner._run_config.callbacks = None
    grid = tuner.fit()
    assert sorted(result.config["x"] for result in grid) == [1, 2, 3, 4]
    assert [iterations(result) for result in grid] == [[1, 2, 3, 4]] * 4
    assert grid.get_best_result().config["x"] == 4


def test_N5d_unfinished_trials_end_if_that_is_wanted(run_config, tmp_path):
    interrupted(run_config)
    tuner = tune.Tuner.restore(str(tmp_path / "exp"), four, resume_unfinished=False)
    tuner._run_config.callbacks = None
    grid = tuner.fit()
    assert len(grid) == 4
    assert grid.num_terminated == 4
    assert any(iterations(result) != [1, 2, 3, 4] for result in grid)


def test_N5e_another_trainable_is_refused(run_config, tmp_path):
    tune.Tuner(lambda config: 1, run_config=run_config()).fit()

    def other(config):
        return 1

    class Class(tune.Trainable):
        def step(self):
            return {"done": True}

    for trainable in (other, Class):
        with pytest.raises(ValueError, match="Invalid `trainable` input"):
            tune.Tuner.restore(str(tmp_path / "exp"), trainable)


def test_N5f_a_moved_experiment_goes_on_where_it_is(run_config, tmp_path):
    interrupted(run_config)
    moved = tmp_path / "elsewhere" / "other name"
    moved.parent.mkdir()
    shutil.move(tmp_path / "exp", moved)
    tuner = tune.Tuner.restore(str(moved), four)
    tuner._run_config.callbacks = None
    grid = tuner.fit()
    assert not (tmp_path / "exp").exists()
    assert [iterations(result) for result in grid] == [[1, 2, 3, 4]] * 4
    for result in grid:
        assert Path(result.path).parent == moved
        assert Path(result.checkpoint.path).is_relative_to(moved)


def test_N5g_results_are_there_before_fit(run_config, tmp_path):
    folder = failed_experiment(run_config, tmp_path)
    tuner = tune.Tuner.restore(str(folder), two_and_a_failure)
    grid = tuner.get_results()
    assert len(grid) == 4
    assert (grid.num_errors, grid.num_terminated) == (2, 2)
    assert [result.metrics["it"] for result in grid] == [2, 2, 2, 2]
    assert [number_of(result.checkpoint) for result in grid] == [2, 2, 2, 2]
    assert [result.metrics["done"] for result in grid] == [True, False, True, False]


def test_N5h_what_cannot_be_restored_is_told(run_config, tmp_path):
    tuner = tune.Tuner(four, run_config=run_config())
    with pytest.raises(AttributeError, match=r"Tuner.restore\(\)` is a classmethod"):
        tuner.restore(str(tmp_path), four)
    with pytest.raises(RuntimeError, match="has not been run"):
        tuner.get_results()
    with pytest.raises(FileNotFoundError):
        tune.Tuner.restore(str(tmp_path / "nothing"), four)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        tune.Tuner.restore(str(tmp_path / "empty"), four)
    assert not tune.Tuner.can_restore(str(tmp_path / "empty"))


class Remembers(Searcher):
    """Suggests how many results it has heard of so far."""

    def __init__(self):
        super().__init__(metric="x", mode="max")
        self.heard = 0

    def suggest(self, trial_id):
        return {"x": self.heard}

    def on_trial_result(self, trial_id, result):
        self.heard += 1

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.heard += 100


def test_N5i_a_searcher_goes_on_as_if_nothing_had_happened(run_config, tmp_path):
    def results(name, count):
        config = tune.TuneConfig(search_alg=Remembers(), num_samples=4, max_concurrent_trials=1)
        callbacks = [Interrupts(count)]
        tuner = tune.Tuner(four, tune_config=config, run_config=run_config(name=name, callbacks=callbacks))
        if count:
            with pytest.raises(KeyboardInterrupt):
                tuner.fit()
            tuner = tune.Tuner.restore(str(tmp_path / name), four)
            tuner._run_config.callbacks = None
        return [result.config["x"] for result in tuner.fit()]

    assert results("whole", 0) == results("cut", 7) == [0, 104, 208, 312]


@pytest.mark.parametrize("is_old", [False, True], ids=["restore", "resume"])
def test_N5i_random_search_goes_on_with_the_same_sequence(run_config, tmp_path, is_old):
    options = {
        "config": {"x": tune.uniform(0, 1)},
        "num_samples": 8,
        "storage_path": str(tmp_path),
        "name": "exp",
        "verbose": 0,
    }
    search = tune.search.BasicVariantGenerator(random_state=7)
    whole = tune.run(four, search_alg=search, **{**options, "name": "whole"})
    wanted = [trial.config["x"] for trial in whole.trials]
    if is_old:
        with pytest.raises(KeyboardInterrupt):
            tune.run(
                four, search_alg=tune.search.BasicVariantGenerator(random_state=7), callbacks=[Interrupts(5)], **options
            )
        # Its seed is in the journal.
        again = tune.run(four, resume=True, **options)
        assert [trial.config["x"] for trial in again.trials] == wanted
    else:
        config = tune.TuneConfig(search_alg=tune.search.BasicVariantGenerator(random_state=7), num_samples=8)
        space = {"x": tune.uniform(0, 1)}
        run = run_config(callbacks=[Interrupts(5)])
        with pytest.raises(KeyboardInterrupt):
            tune.Tuner(four, param_space=space, tune_config=config, run_config=run).fit()
        tuner = tune.Tuner.restore(str(tmp_path / "exp"), four)
        tuner._run_config.callbacks = None
        assert [result.config["x"] for result in tuner.fit()] == wanted


def test_N5j_a_scheduler_goes_on_as_if_nothing_had_happened(run_config, tmp_path):
    def curve(config):
        for step in range(start_of(), 9):
            tune.report({"score": config["x"]}, checkpoint=save_number(step + 1))

    def lengths(name, count):
        scheduler = tune.create_scheduler("asha", grace_period=1, reduction_factor=2, max_t=9)
        config = tune.TuneConfig(metric="score", mode="max", scheduler=scheduler, max_concurrent_trials=1)
        space = {"x": tune.grid_search([5, 4, 6, 3, 7, 2])}
        run = run_config(name=name, callbacks=[Interrupts(count)])
        tuner = tune.Tuner(curve, param_space=space, tune_config=config, run_config=run)
        if count:
            with pytest.raises(KeyboardInterrupt):
                tuner.fit()
            tuner = tune.Tuner.restore(str(tmp_path / name), curve)
            tuner._run_config.callbacks = None
        return [len(rows_of(result)) for result in tuner.fit()]

    whole = lengths("whole", 0)
    assert len(set(whole)) > 1
    assert lengths("a", 3) == whole
    assert lengths("b", 12) == whole


def test_N5k_a_new_experiment_in_the_folder_of_another_keeps_that(run_config):
    first = tune.Tuner(four, param_space={"x": 1}, run_config=run_config()).fit()
    with pytest.warns(UserWarning, match="held an experiment already"):
        second = tune.Tuner(four, param_space={"x": 1}, run_config=run_config()).fit()
    assert first.experiment_path == second.experiment_path
    assert first[0].path != second[0].path
    assert len(second) == 1
    assert all(Path(grid[0].path, "result.json").read_text() for grid in (first, second))
    (kept,) = Path(first.experiment_path).glob("journal-*.eagleray")
    # What was kept can be gone on with under its old name, elsewhere.
    kept.rename(Path(first.experiment_path) / "journal.eagleray")
    restored = tune.Tuner.restore(first.experiment_path, four).get_results()
    assert [result.path for result in restored] == [first[0].path]
