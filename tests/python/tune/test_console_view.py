"""What a view shows, when, and where: the clock and the stream are the test's own."""

import contextlib
import io
import logging
import sys
import types

import pytest
from tests.python.tune.console import FakeTerminal, make_trial, move, report

from eagleray.tune import _console
from eagleray.tune._console import (
    AirVerbosity,
    ConsoleView,
    ReporterView,
    SilentView,
    Verbosity,
    make_view,
    screen,
    verbosity_of,
    view,
)
from eagleray.tune._console.table import ASCII, UNICODE, Line


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


# Logs.


def test_ten_thousand_trials_are_drawn_from_the_rows_that_are_shown():
    """To draw may look at no more trials than it shows: any other lacks what drawing needs."""
    shown = ConsoleView(
        "exp", metric="loss", mode="min", total_samples=10_000, where=screen.Log(io.StringIO(), {}), is_threaded=False
    )
    shown.start()
    waiting = types.SimpleNamespace
    trials = [waiting(trial_id=f"t{at}") for at in range(10_000)]
    for trial in trials:
        shown.on_status(trial, None, "PENDING")
    for at in range(20):
        shown.on_status(make_trial(at), None, "RUNNING")
    shown.refresh(force=True)
    assert "Trials    10020: 20 RUNNING, 10000 PENDING" in shown._screen._stream.getvalue()


@pytest.fixture
def log():
    """A view on a log, its clock and its stream."""
    clock, stream = Clock(), io.StringIO()
    made = ConsoleView(
        "exp",
        metric="loss",
        mode="min",
        total_samples=3,
        folder="/results/exp",
        where=screen.Log(stream, {}),
        clock=clock,
        is_threaded=False,
    )
    made.start()
    return made, clock, stream


def blocks(stream):
    return stream.getvalue().count("Tune      exp")


def test_a_log_gets_a_block_soon_after_a_change_and_then_ever_more_rarely(log):
    shown, clock, stream = log
    trial = make_trial(0)
    shown.on_status(trial, None, "PENDING")
    shown.refresh()
    assert blocks(stream) == 0
    times = []
    for _ in range(960):
        clock.now += 0.125
        move(shown, trial, "RUNNING" if trial.status != "RUNNING" else "PAUSED")
        before = blocks(stream)
        shown.refresh()
        if blocks(stream) > before:
            times.append(round(clock.now - 100.0))
    assert times == [1, 3, 7, 15, 31, 61, 91]


def test_a_log_in_which_nothing_changes_gets_a_block_every_thirty_seconds(log):
    shown, clock, stream = log
    shown.on_status(make_trial(0), None, "PENDING")
    for _ in range(800):
        clock.now += 0.125
        shown.refresh()
    assert blocks(stream) == 1 + 3


def test_results_alone_are_no_change_of_state(log):
    shown, clock, stream = log
    trial = make_trial(0)
    for _ in range(250):
        clock.now += 0.1
        report(shown, trial, loss=1.0)
        shown.refresh()
    assert blocks(stream) == 0


def test_a_log_tells_of_failures_at_once(log):
    shown, _, stream = log
    trial = make_trial(0, "RUNNING", error=ValueError("bad"))
    move(shown, trial, "ERROR")
    shown.refresh()
    assert stream.getvalue() == "3f2a1_00000 failed: ValueError: bad, see /results/exp/train_3f2a1_00000/error.txt\n"


def test_a_log_ends_with_the_whole_and_only_once(log):
    shown, clock, stream = log
    trial = make_trial(0)
    shown.on_status(trial, None, "PENDING")
    move(shown, trial, "RUNNING")
    report(shown, trial, loss=0.5, training_iteration=1)
    move(shown, trial, "TERMINATED")
    clock.now += 2
    shown.close()
    shown.close()
    assert stream.getvalue() == (
        "Tune      exp\n"
        "Time      2.0 s, done\n"
        "Trials    1 of 3: 1 TERMINATED\n"
        "Best      loss=0.5 at iteration 1 of 3f2a1_00000: lr=0.1\n"
        "Results   /results/exp\n"
        "\n"
        "status      trial         lr  iter  time  loss\n"
        "──────────────────────────────────────────────\n"
        "TERMINATED  3f2a1_00000  0.1     1         0.5\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("error", "told"), [(None, "done"), (KeyboardInterrupt, "interrupted"), (ValueError, "failed")]
)
def test_leaving_the_view_tells_how_it_ended(error, told):
    stream = io.StringIO()
    shown = ConsoleView("exp", where=screen.Log(stream, {}), clock=Clock(), is_threaded=False)
    with pytest.raises(error) if error is not None else contextlib.nullcontext(), shown:
        if error is not None:
            raise error
    assert f"Time      0.00 s, {told}\n" in stream.getvalue()


def test_a_log_takes_its_width_from_the_environment():
    assert screen.Log(io.StringIO(), {"COLUMNS": "77"}).size() == (77, None)
    for columns in ("", "0", "wide"):
        assert screen.Log(io.StringIO(), {"COLUMNS": columns}).size() == (screen.LOG_WIDTH, None)


def test_what_is_used_is_shown_and_may_fail():
    stream = io.StringIO()
    said = iter(["2/8 CPU"])
    shown = ConsoleView("exp", where=screen.Log(stream, {}), resources=lambda: next(said), is_threaded=False)
    shown.start()
    shown.refresh(force=True)
    shown.refresh(force=True)
    assert stream.getvalue().count("Uses      2/8 CPU") == 1
    assert blocks(stream) == 2


# How much is said.


def said(verbose):
    stream = io.StringIO()
    shown = ConsoleView(
        "exp", verbose=verbose, metric="loss", where=screen.Log(stream, {}), clock=Clock(), is_threaded=False
    )
    shown.start()
    trial = make_trial(0)
    shown.on_status(trial, None, "PENDING")
    move(shown, trial, "RUNNING")
    report(shown, trial, loss=0.5, training_iteration=1, nested={"a": 1})
    move(shown, trial, "TERMINATED")
    shown.refresh()
    return stream.getvalue().splitlines()


def test_verbosity_one_tells_no_single_result():
    assert said(1) == said(None) == said(AirVerbosity.DEFAULT) == []


def test_verbosity_two_tells_each_result_in_a_line():
    expected = ["3f2a1_00000 started", "3f2a1_00000  iteration 1  loss=0.5", "3f2a1_00000 ended"]
    assert said(2) == said(AirVerbosity.VERBOSE) == said(Verbosity.V2_TRIAL_NORM) == expected


def test_verbosity_three_tells_all_of_each_result():
    assert (
        said(3)
        == said(7)
        == [
            "3f2a1_00000 started",
            "Result of 3f2a1_00000:",
            "  loss: 0.5",
            "  nested/a: 1",
            "  training_iteration: 1",
            "3f2a1_00000 ended",
        ]
    )


@pytest.mark.parametrize("verbose", [0, AirVerbosity.SILENT, Verbosity.V0_MINIMAL])
def test_verbosity_nought_is_silent(verbose, capsys):
    shown = make_view("exp", verbose=verbose, progress_reporter=Recorder())
    assert isinstance(shown, SilentView)
    with shown:
        shown.on_status(make_trial(0), None, "PENDING")
        shown.on_result(make_trial(0))
        shown.refresh(force=True)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [-1, "loud", 1.5])
def test_no_level_is_refused(verbose):
    with pytest.raises(ValueError, match="verbose must"):
        verbosity_of(verbose)


def test_more_results_than_anybody_reads_are_counted():
    stream = io.StringIO()
    shown = ConsoleView("exp", verbose=2, where=screen.Log(stream, {}), clock=Clock(), is_threaded=False)
    shown.start()
    trial = make_trial(0)
    for at in range(1000):
        report(shown, trial, loss=at)
    shown.refresh()
    lines = stream.getvalue().splitlines()
    assert len(lines) == view.MESSAGES_MAX + 1
    assert lines[-1] == f"... {1000 - view.MESSAGES_MAX} more not shown"


# Terminals.


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 60 by 20, with a clock."""
    stream, size = Tty(), [60, 20]
    made = screen.Terminal(stream, {"TERM": "xterm"}, clock := Clock())
    made.clock = clock
    monkeypatch.setattr(made, "size", lambda: tuple(size))
    made.resize = lambda *new: size.__setitem__(slice(None), new)
    return made, stream


def lines(*words):
    return [Line(word) for word in words]


def test_a_drawing_replaces_the_one_before(terminal):
    made, stream = terminal
    made.draw(lines("one", "two", "three"))
    made.draw(lines("four"))
    made.draw(lines("five", "six"))
    assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "five\nsix\n"


def test_the_same_drawing_is_not_written_again(terminal):
    made, stream = terminal
    made.draw(lines("one"))
    before = stream.getvalue()
    made.draw(lines("one"))
    assert stream.getvalue() == before


def test_what_is_said_goes_above_and_stays(terminal):
    made, stream = terminal
    made.draw(lines("view", "view"))
    made.say(["hello"])
    made.draw(lines("again"))
    assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "hello\nagain\n"


def test_what_others_print_goes_above_also_in_pieces(terminal):
    made, stream = terminal
    made.draw(lines("view"))
    for piece in ("a", "b", "\n", "c\n", "half"):
        made.pass_on(stream, piece)
    assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "ab\nc\nhalf"
    # A line that was just begun is waited for, since print writes its end apart; but not for ever.
    made.draw(lines("view", "two"))
    assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "ab\nc\nhalf"
    made.clock.now += screen.UNFINISHED_S
    made.draw(lines("view", "two"))
    assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "ab\nc\nhalf\nview\ntwo\n"


def test_a_drawing_is_cut_at_the_height_of_the_terminal(terminal):
    made, stream = terminal
    for at in range(3):
        made.draw(lines(*(f"{at} {row}" for row in range(50))))
    shown = FakeTerminal(60, 20).feed(stream.getvalue()).text.split("\n")
    assert shown == [f"2 {row}" for row in range(19)] + [""]


def test_a_terminal_that_was_made_narrower_is_wiped_whole(terminal):
    made, stream = terminal
    made.draw(lines("x" * 50, "y"))
    made.resize(20, 20)
    before = len(stream.getvalue())
    made.draw(lines("z"))
    # Fifty columns are three rows of twenty.
    assert stream.getvalue()[before:] == "\x1b[4A\r\x1b[Jz\n"


def test_the_last_drawing_stays_whole_and_in_place_of_the_one_before(terminal):
    made, stream = terminal
    made.draw(lines("live"))
    made.finish(lines(*(str(row) for row in range(30))))
    made.close()
    made.say(["after"])
    assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "\n".join(
        [str(row) for row in range(30)] + ["after", ""]
    )


def test_colours_are_left_out_on_request(terminal):
    marked = [Line("ERROR", (_console.view.frame.Mark(0, 5, "ERROR"),))]
    for environ, coloured in [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]:
        stream = Tty()
        screen.Terminal(stream, environ).draw(marked)
        assert ("\x1b[31m" in stream.getvalue()) is coloured


def test_the_programs_streams_are_guarded_and_given_back(terminal, monkeypatch):
    made, stream = terminal
    out = Tty()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", stream)
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("tests.console")
    logger.addHandler(handler)
    try:
        made.open()
        assert sys.stdout is not out
        assert sys.stdout.isatty()
        made.draw(lines("view"))
        logger.warning("careful")
        sys.stderr.writelines(["a\n", "b\n"])
        made.finish(lines("end"))
        made.close()
        assert (sys.stdout, sys.stderr, handler.stream) == (out, stream, stream)
        assert FakeTerminal(60, 20).feed(stream.getvalue()).text == "careful\na\nb\nend\n"
    finally:
        logger.removeHandler(handler)


def test_a_stream_that_is_no_terminal_is_left_alone(terminal, monkeypatch):
    made, _ = terminal
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", out)
    made.open()
    assert sys.stdout is out
    made.close()


def test_a_stream_that_breaks_does_not_end_the_experiment():
    class Broken(io.StringIO):
        def write(self, words):
            raise BrokenPipeError

    screen.Log(Broken(), {}).say(["x"])
    closed = io.StringIO()
    closed.close()
    screen.Log(closed, {}).say(["x"])
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    screen.Log(latin, {}).say(["日 ä"])
    latin.seek(0)
    assert latin.read() == "? ä\n"


def test_where_it_is_shown_depends_on_the_stream():
    assert isinstance(screen.choose(Tty(), {"TERM": "xterm"}), screen.Terminal)
    for stream, environ in [
        (Tty(), {"TERM": "dumb"}),
        (Tty(), {}),
        (io.StringIO(), {"TERM": "xterm"}),
        (object(), {"TERM": "xterm"}),
    ]:
        assert isinstance(screen.choose(stream, environ), screen.Log)


def test_a_stream_without_unicode_gets_ascii():
    ascii_stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert screen.glyphs_for(ascii_stream) is ASCII
    assert screen.glyphs_for(Tty()) is UNICODE
    assert screen.glyphs_for(io.StringIO()) is UNICODE


# Notebooks.


@pytest.fixture
def notebook(monkeypatch):
    """What a kernel's IPython looks like from here; gives all that it was asked to show."""
    shown = []

    class Handle:
        def update(self, page):
            shown.append(("update", page))

    def display(page, *, display_id):
        assert display_id is True
        shown.append(("display", page))
        return Handle()

    package, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
    package.display, inner.display = inner, display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    return shown


def test_a_notebook_gets_one_output_that_is_replaced(notebook):
    shown = ConsoleView("exp <1>", is_threaded=False)
    shown.start()
    shown.on_status(make_trial(0), None, "RUNNING")
    shown.refresh(force=True)
    shown.refresh(force=True)
    shown.close()
    assert [how for how, _ in notebook] == ["display", "update", "update"]
    page = notebook[-1][1]
    assert repr(page).startswith("Tune      exp <1>\n")
    assert "exp &lt;1&gt;" in page._repr_html_()
    assert "\x1b" not in repr(page) + page._repr_html_()


def test_ipython_on_a_terminal_is_no_notebook(notebook):
    sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace(config={})
    assert not screen.in_notebook()
    sys.modules["IPython"].get_ipython = lambda: None
    assert not screen.in_notebook()


# Users' own reporters.


class Recorder:
    """Not even a subclass: only the methods count."""

    def __init__(self, *, wants=True):
        self.calls = []
        self.wants = wants

    def setup(self, **known):
        self.calls.append(("setup", known))

    def should_report(self, trials, done=False):
        return self.wants or done

    def report(self, trials, done, *sys_info):
        self.calls.append(("report", [trial.number for trial in trials], done, sys_info))


def test_a_users_reporter_is_called_as_it_wishes():
    reporter = Recorder()
    shown = make_view(
        "exp", progress_reporter=reporter, metric="loss", mode="min", total_samples=2, resources=lambda: "2/8 CPU"
    )
    assert isinstance(shown, ReporterView)
    with shown:
        first = make_trial(0)
        shown.on_status(first, None, "PENDING")
        shown.refresh()
        reporter.wants = False
        shown.on_status(make_trial(1), None, "PENDING")
        move(shown, first, "RUNNING")
        shown.refresh()
        shown.refresh(force=True)
    shown.close()
    (_, known), *reports = reporter.calls
    assert known.pop("start_time") > 0
    assert known == {"total_samples": 2, "metric": "loss", "mode": "min"}
    assert reports == [
        ("report", [0], False, ("2/8 CPU",)),
        ("report", [0, 1], False, ("2/8 CPU",)),
        ("report", [0, 1], True, ("2/8 CPU",)),
    ]


def test_results_are_told_beside_a_users_reporter(capsys):
    with make_view("exp", verbose=2, progress_reporter=Recorder(wants=False)) as shown:
        report(shown, make_trial(0), loss=1.5)
    assert capsys.readouterr().out == "3f2a1_00000  loss=1.5\n"


# What is told of trials.


def test_the_best_of_an_earlier_run_is_still_the_best(log):
    """A restored experiment showed the best of what came since, or nothing."""
    shown, _, stream = log
    old = make_trial(0, "TERMINATED", loss=0.5, training_iteration=9)
    for loss in (0.1, 0.5):
        old.note_metrics({"loss": loss})
    shown.on_status(old, None, "TERMINATED")
    shown.on_past(old)
    new = make_trial(1, "RUNNING")
    shown.on_status(new, None, "RUNNING")
    report(shown, new, loss=0.3, training_iteration=1)
    shown.close()
    assert "Best      loss=0.1 of 3f2a1_00000: lr=0.1" in stream.getvalue()


def test_the_best_of_an_earlier_run_that_was_its_last_has_its_iteration(log):
    shown, _, stream = log
    old = make_trial(0, "TERMINATED", loss=0.5, training_iteration=9)
    old.note_metrics({"loss": 0.5})
    shown.on_past(old)
    shown.close()
    assert "Best      loss=0.5 at iteration 9 of 3f2a1_00000: lr=0.1" in stream.getvalue()


@pytest.mark.parametrize(("retries", "how_often"), [(3, "(1 of 3)"), (-1, "(1)")])
def test_a_failure_after_which_a_trial_is_tried_again_is_told(log, retries, how_often):
    """A trial that failed and was tried again started once more, without a word why."""
    shown, _, stream = log
    trial = make_trial(0, "RUNNING", error=ValueError("no luck"), failures=1)
    shown.on_retry(trial, retries)
    shown.close()
    assert f"3f2a1_00000 failed: ValueError: no luck; tried again from the start {how_often}\n" in stream.getvalue()


def test_trials_are_called_as_the_user_calls_them(log):
    shown, _, stream = log
    trial = make_trial(0, "RUNNING")
    trial.custom_name = "lr-first"
    shown.on_status(trial, None, "RUNNING")
    report(shown, trial, loss=0.25, training_iteration=1)
    shown.close()
    assert "Best      loss=0.25 at iteration 1 of lr-first: lr=0.1" in stream.getvalue()
    assert "RUNNING  lr-first  0.1" in stream.getvalue()
