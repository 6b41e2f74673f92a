"""What a view keeps as things happen: counts, the best result, the trials to show, the time left."""

import math

import pytest
from tests.python.tune.console import make_trial

from eagleray.tune._console.board import Board


def on_board(board, trial, *statuses, at=0.0):
    """Take a trial through statuses, a second each."""
    old = None
    for second, status in enumerate(statuses):
        trial.status = status
        board.status(trial, old, status, at + second)
        old = status
    return trial


def test_counts_follow_the_trials():
    board = Board()
    on_board(board, make_trial(0), "PENDING", "RUNNING", "TERMINATED")
    on_board(board, make_trial(1), "PENDING", "RUNNING", "ERROR")
    on_board(board, make_trial(2), "PENDING", "RUNNING", "PAUSED")
    on_board(board, make_trial(3), "PENDING", "RUNNING", "ERROR", "PENDING", "RUNNING")
    assert board.counts() == {"RUNNING": 1, "PAUSED": 1, "TERMINATED": 1, "ERROR": 1}
    assert (board.known, board.ended, board.failed) == (4, 2, 1)


@pytest.mark.parametrize(("mode", "value", "iteration"), [("min", 1.0, 3), ("max", 5.0, 1)])
def test_the_best_is_the_best_that_was_ever_reported(mode, value, iteration):
    board = Board("loss", mode)
    trial = make_trial(0)
    for at, loss in enumerate([5.0, 3.0, 1.0, 2.0, math.nan, math.inf, -math.inf, "no number", None, True], 1):
        trial.last_result = {"loss": loss, "training_iteration": at}
        board.result(trial)
    assert (board.best.value, board.best.iteration, board.best.trial_id) == (value, iteration, "3f2a1_00000")
    assert board.results == 10


def test_the_parameters_of_the_best_are_those_of_its_time():
    # PBT changes a trial's parameters while it goes on.
    board = Board("loss", "min")
    trial = make_trial(0, params={"lr": 1.0}, loss=0.5)
    board.result(trial)
    trial.evaluated_params["lr"] = 2.0
    assert board.best.params == {"lr": 1.0}


def test_a_nested_metric_is_found():
    board = Board("a/b", "max")
    board.result(make_trial(0, a={"b": 3}))
    assert board.best.value == 3.0


def test_what_runs_is_shown_first_then_what_ended_last_then_what_waits():
    board = Board()
    for at, statuses in enumerate(
        [("TERMINATED",), ("RUNNING",), ("ERROR",), ("TERMINATED",), ("RUNNING",), (), (), ("PAUSED",)]
    ):
        on_board(board, make_trial(at), "PENDING", *statuses)
    assert [trial.number for trial in board.top(20)] == [4, 1, 2, 3, 0, 7, 5, 6]
    assert [trial.number for trial in board.top(4)] == [4, 1, 2, 3]
    assert [trial.number for trial in board.top(1)] == [4]
    assert board.top(0) == []


def test_a_quarter_of_the_rows_is_left_to_what_ended():
    board = Board()
    for at in range(100):
        on_board(board, make_trial(at), "PENDING", "RUNNING")
    for at in range(100, 110):
        on_board(board, make_trial(at), "PENDING", "TERMINATED")
    shown = [trial.status for trial in board.top(20)]
    assert (shown.count("RUNNING"), shown.count("TERMINATED")) == (15, 5)


def test_many_failures_are_shown_if_there_is_nothing_else():
    board = Board()
    for at in range(10):
        on_board(board, make_trial(at), "PENDING", "ERROR")
    assert [trial.number for trial in board.top(8)] == [9, 8, 7, 6, 5, 4, 3, 2]


def test_the_time_left_is_guessed_from_those_that_ended():
    board = Board(total=10)
    assert board.left(0.0) is None
    on_board(board, make_trial(0), "RUNNING", at=0.0)
    assert board.left(5.0) is None
    on_board(board, make_trial(1), "RUNNING", at=0.0)
    for at in (0, 1):
        board.status(make_trial(at), "RUNNING", "TERMINATED", 10.0)
    # Two at once, ten seconds each: the other eight take forty.
    assert board.left(10.0) == pytest.approx(40.0)
    on_board(board, make_trial(2), "RUNNING", at=10.0)
    on_board(board, make_trial(3), "RUNNING", at=10.0)
    assert board.left(15.0) == pytest.approx(35.0)


def test_a_trial_that_takes_longer_than_those_before_raises_the_guess():
    board = Board(total=5)
    for at in range(2):
        on_board(board, make_trial(at), "RUNNING", "TERMINATED", at=float(at))
    on_board(board, make_trial(2), "RUNNING", at=2.0)
    # One second each, and then one that has taken fifty: the mean of the three for each of the two that wait.
    assert board.left(52.0) == pytest.approx(2 * 52 / 3)


def test_the_time_left_is_unknown_without_a_total_and_at_the_end():
    for total in (None, -1, math.inf):
        board = Board(total=total)
        on_board(board, make_trial(0), "RUNNING", "TERMINATED")
        assert board.left(1.0) is None
    board = Board(total=1)
    on_board(board, make_trial(0), "RUNNING", "TERMINATED")
    assert board.left(1.0) is None


def test_trials_that_had_ended_before_a_resume_count_without_a_time():
    board = Board(total=4)
    on_board(board, make_trial(0), "TERMINATED")
    assert board.ended == 1
    assert board.left(1.0) is None
    on_board(board, make_trial(1), "RUNNING", "TERMINATED", at=10.0)
    assert board.left(11.0) == pytest.approx(2.0)


def test_pauses_are_not_counted_as_work():
    board = Board(total=2)
    trial = make_trial(0)
    for old, new, at in [
        (None, "RUNNING", 0.0),
        ("RUNNING", "PAUSED", 1.0),
        ("PAUSED", "RUNNING", 100.0),
        ("RUNNING", "TERMINATED", 101.0),
    ]:
        board.status(trial, old, new, at)
    # Two seconds of work took a hundred: the next one will, too.
    assert board.left(101.0) == pytest.approx(101.0)
