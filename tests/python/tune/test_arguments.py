"""What is of the wrong kind is refused before anything runs, by the name under which the user gave it."""

import datetime as dt
import re

import numpy as np
import pytest

from eagleray import tune
from eagleray.tune.schedulers import ASHAScheduler
from eagleray.tune.search import TPESearch

pytestmark = pytest.mark.usefixtures("shared_ray")


def once(config):
    tune.report({"loss": 1})


def fit(tmp_path, tune_config=None, run_config=None, space=None):
    run = tune.RunConfig(**{"name": "exp", "storage_path": str(tmp_path), "verbose": 0, **(run_config or {})})
    return tune.Tuner(once, param_space=space, tune_config=tune.TuneConfig(**(tune_config or {})), run_config=run).fit()


WRONG_TO_TUNE = [
    ("num_samples", "3", "must be a whole number; got '3'"),
    ("num_samples", 2.5, "must be a whole number; got 2.5"),
    ("num_samples", None, "must be a whole number; got None"),
    ("num_samples", -2, "must be 0 or more, or -1 for no end; got -2"),
    ("metric", 5, "must be the name of what trials report; got 5"),
    ("max_concurrent_trials", 1.5, "must be a whole number; got 1.5"),
    ("time_budget_s", "10", "must be a number of seconds or a datetime.timedelta; got '10'"),
    ("trial_name_creator", "x", "must be a function of the trial; got 'x'"),
    ("scheduler", 5, "must be an instance of a TrialScheduler, or a name such as 'asha'; got 5"),
    ("scheduler", ASHAScheduler, "of which AsyncHyperBandScheduler is the class: AsyncHyperBandScheduler(...)"),
    ("search_alg", TPESearch, "of which TPESearch is the class: TPESearch(...)"),
]
WRONG_TO_RUN = [
    ("name", 5, "must be a string; got 5"),
    ("storage_path", 5, "must be a string; got 5"),
    ("callbacks", tune.Callback(), "must be a list of tune.Callback; got"),
    (
        "callbacks",
        [tune.Callback],
        "must be an instance of tune.Callback, of which Callback is the class: Callback(...)",
    ),
    ("verbose", "x", "must be a number from 0 to 3; got 'x'"),
    ("log_to_file", ("a", "b", "c"), "must be True, the name of a file, or the names of two: stdout and stderr; got"),
    ("progress_reporter", tune.CLIReporter, "must be an instance of tune.ProgressReporter"),
    ("checkpoint_config", {"num_to_keep": 1}, "must be a CheckpointConfig; got"),
    ("failure_config", 3, "must be a FailureConfig; got 3"),
]


@pytest.mark.parametrize(("name", "value", "text"), WRONG_TO_TUNE)
def test_what_is_searched_for(tmp_path, name, value, text):
    """They came up as AttributeErrors from within; num_samples=-2 ran for ever."""
    with pytest.raises((TypeError, ValueError), match=f"{name}.*{re.escape(text)}"):
        fit(tmp_path, tune_config={name: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "value", "text"), WRONG_TO_RUN)
def test_how_it_runs(tmp_path, name, value, text):
    with pytest.raises(TypeError, match=f"{name}.*{re.escape(text)}"):
        fit(tmp_path, run_config={name: value})
    assert list(tmp_path.iterdir()) == []


def test_libraries_say_false_for_no_scheduler(tmp_path):
    assert len(fit(tmp_path, tune_config={"scheduler": False})) == 1


@pytest.mark.parametrize("space", [5, [1, 2], "lr", tune.uniform(0, 1)])
def test_a_space_is_a_dictionary(tmp_path, space):
    with pytest.raises(TypeError, match="param_space must be a dictionary"):
        fit(tmp_path, space=space)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tune.Tuner(once, tune_config={"metric": "loss"}),
        lambda: tune.Tuner(once, run_config={"name": "exp"}),
        lambda: tune.FailureConfig(max_failures="x"),
        lambda: tune.CheckpointConfig(num_to_keep="x"),
    ],
)
def test_configurations_are_of_their_classes(make):
    with pytest.raises(TypeError, match="must be a"):
        make()


def test_resources_are_refused_where_they_are_given():
    with pytest.raises(ValueError, match="the amount of 'CPU' a trial needs must be a number >= 0, not -1"):
        tune.with_resources(once, {"cpu": -1})


def test_a_function_that_needs_more_than_it_gets_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"train\(config, reporter, data\) needs more"):
        tune.run(function_of_three(), storage_path=str(tmp_path), verbose=0)


def function_of_three():
    def train(config, reporter, data):
        reporter(loss=data)

    return train


def test_what_was_not_given_for_resume_is_told(tmp_path):
    with pytest.raises(ValueError, match="resume must be True, 'AUTO'"):
        tune.run(once, name="exp", resume="ATUO", storage_path=str(tmp_path), verbose=0)


def test_numbers_of_numpy_and_spans_of_time_are_fine(tmp_path):
    grid = fit(
        tmp_path,
        {"num_samples": np.int64(2), "max_concurrent_trials": np.int32(1), "time_budget_s": dt.timedelta(seconds=50)},
        {"storage_path": tmp_path, "log_to_file": ["out", "err"]},
    )
    assert len(grid) == 2


def test_an_experiment_is_run_twice(tmp_path):
    """The first run took its trainable away."""
    experiment = tune.Experiment("exp", once, storage_path=str(tmp_path))
    assert len(tune.run_experiments(experiment, verbose=0)) == 1
    assert len(tune.run(experiment, name="again", verbose=0).trials) == 1
