"""The single stoppers."""

import datetime as dt
import pickle

import numpy as np
import pytest

from eagleray.tune.error import TuneError
from eagleray.tune.stopper import (
    DictionaryStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    TimeoutStopper,
    TrialPlateauStopper,
)


def test_so_many_results_of_each_trial():
    stopper = MaximumIterationStopper(3)
    assert [stopper(trial, {}) for trial in "aabab"] == [False, False, False, True, False]
    assert not stopper.stop_all()
    assert not NoopStopper()("a", {})
    assert not NoopStopper().stop_all()


def test_a_trial_that_rests_is_ended():
    stopper = TrialPlateauStopper("x", std=0.1, num_results=3, grace_period=4)
    assert [stopper("a", {"x": value}) for value in (1, 1, 1, 1)] == [False, False, False, True]
    assert [stopper("b", {"x": value}) for value in (1, 2, 3, 4, 4.01, 4.02)] == [False] * 5 + [True]
    assert not any(stopper("c", {"x": float("nan")}) for _ in range(9))
    assert not any(stopper("d", {}) for _ in range(9))


def test_only_a_good_trial_is_ended_if_there_is_a_threshold():
    stopper = TrialPlateauStopper("x", num_results=2, grace_period=2, metric_threshold=0, mode="min")
    assert not any(stopper("a", {"x": 1}) for _ in range(4))
    assert [stopper("b", {"x": -1}) for _ in range(2)] == [False, True]
    with pytest.raises(ValueError, match="When specifying a `metric_threshold`"):
        TrialPlateauStopper("x", metric_threshold=0)


def test_an_experiment_whose_best_values_are_the_same_is_ended():
    stopper = ExperimentPlateauStopper("x", std=0.01, top=2, mode="min", patience=2)
    assert not stopper("a", {"x": 5.0})
    assert not stopper("b", {"x": 1.0})
    assert not stopper("c", {"x": 1.0})  # the first time
    assert not stopper("c", {"x": float("nan")})
    assert not stopper("c", {})
    assert not stopper.stop_all()
    assert stopper("d", {"x": 9.0})
    assert stopper.stop_all()
    assert not stopper("e", {"x": 0.5})  # a new best
    assert not stopper.stop_all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "up"}, "either min or max"),
        ({"top": 1}, "Top results"),
        ({"top": 2.5}, "Top results"),
        ({"patience": -1}, "Patience"),
        ({"std": 0}, "standard deviation"),
        ({"std": -0.1}, "standard deviation"),
    ],
)
def test_an_experiments_plateau_is_well_defined(options, text):
    with pytest.raises(ValueError, match=text):
        ExperimentPlateauStopper("x", **options)


def test_an_experiment_ends_when_its_time_is_over(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stopper = TimeoutStopper(dt.timedelta(seconds=10))
    assert not stopper("a", {})
    now[0] += 50  # before the first question nothing counts
    assert not stopper.stop_all()
    now[0] += 6
    assert not stopper.stop_all()
    resumed = pickle.loads(pickle.dumps(stopper))
    now[0] += 1000  # between two runs neither
    assert not resumed.stop_all()
    now[0] += 4
    assert resumed.stop_all()
    for wrong in ("10", None, True):
        with pytest.raises(ValueError, match="`timeout` parameter has to be either a number or"):
            TimeoutStopper(wrong)


def test_functions_are_told_from_stoppers():
    assert FunctionStopper.is_valid_function(lambda trial_id, result: True)
    assert not FunctionStopper.is_valid_function(NoopStopper())
    assert not FunctionStopper.is_valid_function(3)


def test_thresholds_that_cannot_be_compared_say_so():
    with pytest.raises(TuneError, match="'x': 3.*reported 'high'"):
        DictionaryStopper({"x": 3})("a", {"x": "high"})
    assert not DictionaryStopper({"x": 3})("a", {"x": None})
    assert DictionaryStopper({"done": True})("a", {"done": True})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("episode_reward_men", "episode_reward_mean"),
        ("episode_return_mean", "env_runners/episode_return_mean"),
        ("env_runner/episode_return_mean", "env_runners/episode_return_mean"),
        ("timestep_total", "timesteps_total"),
        ("lr", None),
        ("accuracy", None),
    ],
)
def test_a_metric_that_is_not_reported_is_told_once_with_the_nearest_one(caplog, name, meant):
    result = {
        "episode_reward_mean": 1.0,
        "timesteps_total": np.int64(10),
        "env_runners": {"episode_return_mean": float("nan"), "hist": [1]},
        "config": {"lr": 1.0},
    }
    stopper = DictionaryStopper({name: 5})
    assert not stopper("a", result)
    assert not stopper("a", result)
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.endswith(f"Did you mean '{meant}'?" if meant else "until training is finished.")
