"""What ends trials: `stop` in all its forms."""

import logging

import pytest

from eagleray.tune.error import TuneError
from eagleray.tune.stopper import (
    CombinedStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    as_stopper,
)


def test_N2a_thresholds_end_a_trial_when_one_is_reached():
    stopper = as_stopper({"accuracy": 0.9, "training_iteration": 10})
    assert not stopper("a", {"accuracy": 0.89, "training_iteration": 9})
    assert stopper("a", {"accuracy": 0.9, "training_iteration": 1})
    assert stopper("a", {"accuracy": 0.1, "training_iteration": 11})
    assert not stopper("a", {"accuracy": float("nan"), "training_iteration": 1})
    assert not stopper.stop_all()


@pytest.mark.parametrize("stop", [{"a/b/c": 3}, {"a": {"b": {"c": 3}}}, {"a": {"b/c": 3}}])
@pytest.mark.parametrize("shape", [lambda value: {"a": {"b": {"c": value}}}, lambda value: {"a/b/c": value}])
def test_N2b_nested_metrics_are_named_by_dicts_or_slashes(stop, shape):
    stopper = as_stopper(stop)
    assert not stopper("t", shape(2))
    assert stopper("t", shape(3))


def test_N2c_a_function_of_trial_and_result_ends_a_trial():
    stopper = as_stopper(lambda trial_id, result: trial_id == "a" and result["x"] > 1)
    assert stopper("a", {"x": 2})
    assert not stopper("b", {"x": 2})
    assert not stopper("a", {"x": 1})
    assert not stopper.stop_all()


@pytest.mark.parametrize("wrong", [lambda: True, lambda result: True, lambda a, b, c: True])
def test_N2c_a_function_of_other_arguments_is_refused_at_once(wrong):
    with pytest.raises(TuneError, match="trial_id, result"):
        as_stopper(wrong)


def test_N2d_a_stopper_ends_trials_and_everything():
    class Mine(Stopper):
        def __init__(self):
            self.is_over = False

        def __call__(self, trial_id, result):
            self.is_over = self.is_over or result["x"] == 13
            return result["x"] > 5

        def stop_all(self):
            return self.is_over

    mine = Mine()
    assert as_stopper(mine) is mine
    both = as_stopper([mine, MaximumIterationStopper(2)])
    assert isinstance(both, CombinedStopper)
    assert not both("a", {"x": 1})
    assert both("b", {"x": 6})
    assert not both.stop_all()
    assert both("a", {"x": 1})  # its second
    assert both("c", {"x": 13})
    assert both.stop_all()
    with pytest.raises(TypeError, match="abstract class Stopper"):
        Stopper()


def test_N2d_what_is_none_of_these_is_refused():
    assert as_stopper(None) is None
    assert as_stopper({}) is None
    with pytest.raises(ValueError, match="must be either a dict, a function, or a subclass of"):
        as_stopper(3)
    with pytest.raises(ValueError, match="each element must be an instance of"):
        as_stopper([NoopStopper(), {"a": 1}])
    with pytest.raises(TuneError, match="is a class"):
        as_stopper(NoopStopper)

    class Almost:
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return False

    with pytest.raises(ValueError, match="subclass to be detected"):
        as_stopper(Almost())


def test_N2e_a_metric_that_is_never_reported_only_warns_and_once(caplog):
    stopper = as_stopper({"never": 1, "seen": 5})
    with caplog.at_level(logging.WARNING):
        assert not stopper("a", {"seen": 1})
        assert not stopper("a", {"seen": 2})
        assert stopper("b", {"seen": 5})
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "Stopping criterion 'never' not found in result dict! Available values are ['seen']" in warnings[0]
