"""Schedules by timestep."""

import pytest

from eagleray.rllib.utils.schedules import Schedule


def test_points_are_hit_exactly_and_lines_lie_between():
    schedule = Schedule([[0, 0.1], [10, 0.05], [20, 1e-5]])
    assert [schedule.value(t) for t in (0, 10, 20, 21, 1e9)] == [0.1, 0.05, 1e-5, 1e-5, 1e-5]
    assert schedule.value(5) == pytest.approx(0.075)
    assert schedule(15) == pytest.approx((0.05 + 1e-5) / 2)
    assert not schedule.is_constant


def test_a_number_never_changes():
    assert Schedule(3).value(10**9) == 3.0
    assert Schedule(3).is_constant


@pytest.mark.parametrize("given", [[[1, 2.0]], [[0, 1], [0, 2]], [[0, 1], [5]], [], "x", None, [[0, "a"]], True])
def test_what_is_no_schedule_is_refused_by_name(given):
    with pytest.raises(ValueError, match="`rate`"):
        Schedule(given, "rate")
