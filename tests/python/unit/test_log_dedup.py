"""Rule L4: what the driver prints of what its workers print."""

import pytest

from eagleray._driver import log_dedup
from eagleray._driver.log_dedup import LogDedup, Printed, Source

A, B, C, D = (Source("f", pid) for pid in (1, 2, 3, 4))
HERE = Source("Actor(x)", 9, "ip=10.0.0.2")


def texts(printed):
    return [one.text for one in printed]


@pytest.fixture
def dedup():
    return LogDedup()


def test_L4_first_line_comes_at_once_with_its_worker(dedup):
    assert dedup.feed(0.0, HERE, "hello") == [Printed("(Actor(x) pid=9, ip=10.0.0.2) hello", is_error=False)]
    assert texts(dedup.feed(0.0, A, "other")) == ["(f pid=1) other"]
    assert texts(dedup.feed(0.0, Source("", 5), "third")) == ["(pid=5) third"]


def test_L4_same_line_of_other_workers_is_counted(dedup):
    assert texts(dedup.feed(0.0, A, "loss 0.5")) == ["(f pid=1) loss 0.5"]
    for worker in (B, C, D):
        assert dedup.feed(1.0, worker, f"loss 0.{worker.pid}") == []
    assert dedup.poll(4.9) == []
    assert dedup.deadline() == 5.0
    (line,) = texts(dedup.poll(5.0))
    assert line.startswith("(f pid=4) loss 0.4 [repeated 3x across cluster]")
    assert "RAY_DEDUP_LOGS=0" in line


def test_L4_hint_is_given_once(dedup):
    lines = []
    for start in (0.0, 100.0):
        for word in ("one", "two"):
            for worker in (A, B, C):
                lines += texts(dedup.feed(start, worker, word))
    lines += texts(dedup.flush())
    assert sum("[repeated" in line for line in lines) == 4
    assert sum("RAY_DEDUP_LOGS" in line for line in lines) == 1


def test_L4_second_summary_has_no_hint(dedup):
    for worker in (A, B, C):
        dedup.feed(0.0, worker, "x")
    assert "RAY_DEDUP_LOGS" in texts(dedup.poll(5.0))[0]
    for worker in (A, B, C):
        assert dedup.feed(6.0, worker, "x") == []
    assert texts(dedup.poll(10.0)) == ["(f pid=3) x [repeated 3x across cluster]"]


def test_L4_one_worker_alone_is_never_held_back(dedup):
    for step in range(5):
        assert texts(dedup.feed(step * 0.1, A, f"step {step}")) == [f"(f pid=1) step {step}"]


def test_L4_a_single_repetition_is_printed_as_it_is(dedup):
    dedup.feed(0.0, A, "x")
    assert dedup.feed(0.0, B, "x") == []
    assert texts(dedup.poll(5.0)) == ["(f pid=2) x"]


def test_L4_after_silence_a_line_is_new(dedup):
    dedup.feed(0.0, A, "x")
    assert dedup.poll(5.0) == []
    assert dedup.deadline() is None
    assert texts(dedup.feed(6.0, B, "x")) == ["(f pid=2) x"]


def test_L4_feeding_tells_what_is_due_first(dedup):
    for worker in (A, B, C):
        dedup.feed(0.0, worker, "old")
    lines = texts(dedup.feed(7.0, A, "new"))
    assert lines[0].startswith("(f pid=3) old [repeated 2x across cluster]")
    assert lines[1] == "(f pid=1) new"


def test_L4_stderr_and_stdout_are_apart(dedup):
    assert dedup.feed(0.0, A, "x") == [Printed("(f pid=1) x", is_error=False)]
    assert dedup.feed(0.0, B, "x", is_error=True) == [Printed("(f pid=2) x", is_error=True)]
    dedup.feed(0.0, A, "x", is_error=True)
    assert dedup.flush() == [Printed("(f pid=1) x", is_error=True)]


def test_L4_nothing_is_lost_at_the_end(dedup):
    for worker in (A, B, C):
        dedup.feed(0.0, worker, "bye")
    (line,) = texts(dedup.flush())
    assert "[repeated 2x across cluster]" in line
    assert dedup.flush() == []


def test_L4_switched_off():
    dedup = LogDedup.from_environ({"RAY_DEDUP_LOGS": "0"})
    for worker in (A, B, C):
        assert texts(dedup.feed(0.0, worker, "x")) == [f"(f pid={worker.pid}) x"]
    assert dedup.flush() == []


def test_L4_settings():
    dedup = LogDedup.from_environ(
        {
            "RAY_DEDUP_LOGS_AGG_WINDOW_S": "1",
            "RAY_DEDUP_LOGS_ALLOW_REGEX": "^always",
            "RAY_DEDUP_LOGS_SKIP_REGEX": "noise",
        }
    )
    assert dedup.feed(0.0, A, "some noise") == []
    for worker in (A, B, C):
        assert texts(dedup.feed(0.0, worker, "always")) == [f"(f pid={worker.pid}) always"]
        dedup.feed(0.0, worker, "x")
    assert len(dedup.poll(1.0)) == 1


def test_L4_color_is_around_the_prefix_only():
    (line,) = texts(LogDedup(has_color=True).feed(0.0, A, "x"))
    assert line == "\033[36m(f pid=1)\033[0m x"


def test_L4_memory_is_bounded(dedup, monkeypatch):
    monkeypatch.setattr(log_dedup, "LINES_MAX", 2)
    for word in ("a", "b", "c"):
        dedup.feed(0.0, A, word)
        dedup.feed(0.0, B, word)
    assert texts(dedup.flush()) == ["(f pid=2) b", "(f pid=2) c"]


def test_L4_addresses_do_not_make_lines_different(dedup):
    dedup.feed(0.0, A, "<object at 0x7f00aa>")
    assert dedup.feed(0.0, B, "<object at 0x10ff>") == []


def test_L4j_a_bar_that_is_drawn_over_keeps_the_name_before_it():
    printed = LogDedup().feed(0.0, Source("f", 1), "1%\r2%\r3%")
    assert [line.text for line in printed] == ["(f pid=1) 1%\r(f pid=1) 2%\r(f pid=1) 3%"]
