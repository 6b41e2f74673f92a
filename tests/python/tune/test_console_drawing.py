"""What a moment of an experiment looks like: data in, lines out."""

import math

import pytest
from tests.python.tune.console import make_trial

from eagleray.tune._console import text
from eagleray.tune._console.board import Best
from eagleray.tune._console.frame import Failure, Moment, Shape, brief, detailed, draw, failure_of, trial_table
from eagleray.tune._console.screen import html_of, paint
from eagleray.tune._console.table import ASCII, Column, Line, Mark, boxed, lay_out

RESULTS = {"training_iteration": 7, "time_total_s": 93.25}


def lines_of(lines):
    return "\n".join(line.text for line in lines)


def moment(**changes):
    trials = [
        make_trial(4, "RUNNING", params={"lr": 0.3, "net/units": 64}),
        make_trial(3, "RUNNING", params={"lr": 0.01, "net/units": 128}, loss=0.125, acc=0.875, **RESULTS),
        make_trial(
            2,
            "ERROR",
            params={"lr": 0.1, "net/units": 8},
            loss=math.nan,
            acc=0.5,
            training_iteration=1,
            time_total_s=0.25,
        ),
        make_trial(
            1,
            "TERMINATED",
            params={"lr": 1e-7, "net/units": 16},
            loss=0.25,
            acc=0.75,
            training_iteration=10,
            time_total_s=4000,
        ),
    ]
    known = {
        "experiment": "train_2026-11-15_16-09-47",
        "elapsed": 72.3,
        "counts": {"RUNNING": 2, "PENDING": 25, "TERMINATED": 2, "ERROR": 1},
        "total": 100,
        "left": 850.0,
        "resources": "2/8 CPU, 1/1 GPU",
        "best": Best("3f2a1_00003", "loss", 0.125, 7, {"lr": 0.01, "net/units": 128}),
        "trials": trials,
        "failures": [
            Failure(
                "3f2a1_00002",
                2,
                "ValueError: bad",
                "/home/me/ray_results/train_2026-11-15_16-09-47/train_3f2a1_00002/error.txt",
            )
        ],
        "folder": "/home/me/ray_results/train_2026-11-15_16-09-47",
    }
    return Moment(**{**known, **changes})


AT_200 = """\
Tune      train_2026-11-15_16-09-47
Time      1 min 12 s, about 14 min left
Trials    30 of 100: 2 RUNNING, 25 PENDING, 2 TERMINATED, 1 ERROR
Uses      2/8 CPU, 1/1 GPU
Best      loss=0.125 at iteration 7 of 3f2a1_00003: lr=0.01, net/units=128
Results   /home/me/ray_results/train_2026-11-15_16-09-47

status      trial           lr  net/units  iter        time   loss    acc
─────────────────────────────────────────────────────────────────────────
RUNNING     3f2a1_00004    0.3         64
RUNNING     3f2a1_00003   0.01        128     7  1 min 33 s  0.125  0.875
ERROR       3f2a1_00002    0.1          8     1      0.25 s    nan    0.5
TERMINATED  3f2a1_00001  1e-07         16    10   1 h 6 min   0.25   0.75
… 26 more (25 PENDING, 1 TERMINATED)

1 failed
  3f2a1_00002  ValueError: bad (2 times)
    /home/me/ray_results/train_2026-11-15_16-09-47/train_3f2a1_00002/error.txt"""

AT_40 = """\
Tune      train_2026-11-15_16-09-47
Time      1 min 12 s, about 14 min left
Trials    30 of 100: 2 RUNNING,
          25 PENDING, 2 TERMINATED,
          1 ERROR
Uses      2/8 CPU, 1/1 GPU
Best      loss=0.125 at iteration 7
          of 3f2a1_00003: lr=0.01,
          net/units=128
Results   …lts/train_2026-11-15_16-09-47

status      trial        iter   loss
────────────────────────────────────
RUNNING     3f2a1_00004
RUNNING     3f2a1_00003     7  0.125
ERROR       3f2a1_00002     1    nan
TERMINATED  3f2a1_00001    10   0.25
not shown: lr, net/units, time, acc
… 26 more (25 PENDING, 1 TERMINATED)

1 failed
  3f2a1_00002  ValueError: bad (2 times)
    …6-09-47/train_3f2a1_00002/error.txt"""


@pytest.mark.parametrize(("width", "expected"), [(200, AT_200), (80, AT_200), (40, AT_40)])
def test_a_whole_view(width, expected):
    assert lines_of(draw(moment(), Shape(width, metric="loss"))) == expected


def test_a_view_without_what_is_not_known():
    bare = Moment("exp", 0.0)
    assert lines_of(draw(bare, Shape(80))) == "Tune      exp\nTime      0.00 s\nTrials    0"


def test_an_experiment_that_has_ended_says_how():
    ended = moment(state="interrupted", trials=(), failures=(), best=None, resources="")
    assert lines_of(draw(ended, Shape(80))).split("\n")[1] == "Time      1 min 12 s, interrupted"


@pytest.mark.parametrize("width", [20, 25, 30, 40, 60, 79, 80, 120, 200])
@pytest.mark.parametrize("words", ["plain", "日本語の名前", "e\u0301" * 30, "x" * 300, "\x1b[2Jclear\nline"])
def test_no_line_is_wider_than_the_terminal(width, words):
    params = {words: words, "lr": 0.1, "other/" + words: [1] * 10_000}
    trials = [
        make_trial(at, "RUNNING", params=params, folder=f"/{words}", loss=at, **{words: 1.5}, **RESULTS)
        for at in range(3)
    ]
    best = Best("3f2a1_00000", words, 1e300, 3, params)
    failures = [Failure("3f2a1_00000", 3, words * 3, f"/{words}/error.txt")]
    lines = draw(
        moment(experiment=words, best=best, trials=trials, failures=failures, folder=f"/{words}"),
        Shape(width, metric="loss"),
    )
    assert max(text.width(line.text) for line in lines) <= width
    assert all(line.text.isprintable() for line in lines)


def test_a_log_keeps_its_paths_whole():
    lines = draw(moment(), Shape(40, metric="loss", cuts_paths=False))
    assert "    /home/me/ray_results/train_2026-11-15_16-09-47/train_3f2a1_00002/error.txt" in [
        line.text for line in lines
    ]


def test_a_stream_without_unicode_gets_none():
    drawn = lines_of(draw(moment(), Shape(40, metric="loss", glyphs=ASCII)))
    assert drawn.isascii()
    assert "------" in drawn
    assert ".. 26 more (25 PENDING, 1 TERMINATED)" in drawn


def test_columns_that_the_user_names_are_the_ones_that_are_shown():
    trials = moment().trials[:2]
    shape = Shape(80, metric="loss", metrics={"acc": "accuracy", "loss": "loss"}, params={"lr": "rate"})
    assert lines_of(trial_table(trials, shape)) == (
        "status   trial        rate  accuracy   loss\n"
        "───────────────────────────────────────────\n"
        "RUNNING  3f2a1_00004   0.3\n"
        "RUNNING  3f2a1_00003  0.01     0.875  0.125"
    )


def test_of_many_metrics_the_one_that_counts_and_a_few_are_shown():
    metrics = {f"m{at}": at for at in range(20)}
    head = trial_table([make_trial(0, "RUNNING", **metrics, **RESULTS)], Shape(300, metric="m17"))[0].text
    assert head.split() == ["status", "trial", "lr", "iter", "time", "m17", "m0", "m1", "m2", "m3"]


def test_what_is_nested_is_found_and_what_tune_adds_is_not_shown():
    trial = make_trial(
        0, "RUNNING", nested={"loss": 2.5}, pid=7, done=False, config={"a": 1}, date="x", flag=True, **RESULTS
    )
    table = lines_of(trial_table([trial], Shape(120, metric="nested/loss"))).split("\n")
    assert table[0].split() == ["status", "trial", "lr", "iter", "time", "nested/loss"]
    assert table[2].endswith("2.5")


def test_a_parameter_may_be_none_and_a_trial_may_lack_one():
    trials = [make_trial(0, params={"act": None, "lr": 1}), make_trial(1, params={"lr": 2})]
    assert lines_of(trial_table(trials, Shape(80))) == (
        "status   trial        act   lr  iter  time\n"
        "──────────────────────────────────────────\n"
        "PENDING  3f2a1_00000  None   1\n"
        "PENDING  3f2a1_00001         2"
    )


def test_failures_name_what_was_raised_and_where_it_is_written():
    error = RuntimeError("ray::train()\n  File x\nZeroDivisionError: division by zero\n")
    trial = make_trial(0, "ERROR", error=error, failures=3)
    assert failure_of(trial) == Failure(
        "3f2a1_00000",
        3,
        "RuntimeError: ZeroDivisionError: division by zero",
        "/results/exp/train_3f2a1_00000/error.txt",
    )
    assert failure_of(make_trial(0, "ERROR", folder=None)) == Failure("3f2a1_00000", 0, "failed", None)


def test_more_failures_than_room_are_counted():
    lines = lines_of(draw(moment(failures_more=12), Shape(80, metric="loss")))
    assert "\n13 failed\n" in lines
    assert lines.endswith("\n  … 12 more")


def test_a_result_in_brief_and_in_detail():
    trial = make_trial(0, "RUNNING", acc=0.5, loss=math.inf, nested={"a": {"b": 1}}, **RESULTS)
    assert brief(trial, "loss") == "3f2a1_00000  iteration 7  1 min 33 s  loss=inf  acc=0.5"
    assert detailed(trial) == [
        "Result of 3f2a1_00000:",
        "  acc: 0.5",
        "  loss: inf",
        "  nested/a/b: 1",
        "  time_total_s: 93.25",
        "  training_iteration: 7",
    ]


# Values.


class Broken:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (True, "True"),
        (3, "3"),
        (10**40, "1e+40"),
        (10**400, "inf"),
        (-(10**400), "-inf"),
        (0.1 + 0.2, "0.3"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (123456789.0, "1.23457e+08"),
        ("two\nlines\t\x1b[1m", "two lines ?[1m"),
        ("\ud800", "?"),
        ([1, 2], "[1, 2]"),
        ([0] * 10**6, "[0, 0, 0, 0, 0, 0, 0, 0, ...]"),
        ({"a": [1]}, "{'a': [1]}"),
        (Broken(), "<Broken instance at"),
    ],
)
def test_text_of_values(value, expected):
    assert text.value(value).startswith(expected)
    assert bool(text.value(value)) == bool(expected)


def test_numbers_of_numpy_are_numbers():
    np = pytest.importorskip("numpy")
    assert text.value(np.float32(0.5)) == "0.5"
    assert text.value(np.array(3)) == "3"
    assert text.value(np.zeros(10**6)).startswith("array")


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        (0, "0.00 s"),
        (12.34, "12.3 s"),
        (60, "1 min 0 s"),
        (3725, "1 h 2 min"),
        (90000, "1 d 1 h"),
        (math.nan, "?"),
        (-1, "?"),
    ],
)
def test_text_of_times(spent, expected):
    assert text.seconds(spent) == expected


@pytest.mark.parametrize(
    ("left", "expected"), [(3, "a few seconds"), (44, "40 s"), (400, "7 min"), (5400, "1.5 h"), (200000, "2.3 d")]
)
def test_text_of_guesses(left, expected):
    assert text.about(left) == expected


def test_width_counts_columns_and_not_characters():
    assert (text.width("abc"), text.width("日本"), text.width("e\u0301")) == (3, 4, 1)
    assert text.fit("日本語", 5) == "日本…"
    assert text.fit_end("日本語", 5) == "…本語"
    assert text.fit("abc", 0) == ""
    assert text.pad("日", 4) == "日  "
    assert text.pad("日", 4, right=True) == "  日"


def test_text_of_what_is_used():
    total = {"CPU": 8.0, "GPU": 1.0, "memory": 1e9, "object_store_memory": 1e9, "node:10.0.0.1": 1.0}
    assert text.resources({"CPU": 2.5}, total) == "2.5/8 CPU, 0/1 GPU"


def test_dicts_keep_their_order_as_literals():
    assert (
        text.literal({"b": 1, "a": {"x": None, "y": "z"}, "c": [1, 2]})
        == "{'b': 1, 'a': {'x': None, 'y': 'z'}, 'c': [1, 2]}"
    )
    assert text.literal(dict.fromkeys(range(60), 0)).endswith("49: 0, ...}")


# Tables.


def test_the_column_that_matters_least_goes_first():
    columns = [Column("keep", ["1"]), Column("early", ["2"], drop=9), Column("late", ["3"], drop=1)]
    assert [lay_out(columns, width)[1] for width in (20, 15, 8)] == [[], ["early"], ["early", "late"]]


def test_columns_that_must_stay_are_squeezed():
    columns = [Column("one", ["a" * 30]), Column("two", ["b" * 30])]
    lines, _ = lay_out(columns, 20)
    assert lines[2].text == "aaaaa…  bbbbbbbbbbb…"


def test_marks_cover_the_cells_of_their_column():
    line = lay_out([Column("s", ["RUNNING"], kinds=["RUNNING"]), Column("t", ["x"])], 40)[0][2]
    assert [(line.text[mark.start : mark.end], mark.kind) for mark in line.marks] == [("RUNNING", "RUNNING")]


def test_colours_are_put_around_marks_and_end_with_them():
    line = Line("ab <c> de", (Mark(0, 2, "ERROR"), Mark(7, 99, "dim"), Mark(50, 60, "dim"), Mark(3, 4, "no such kind")))
    assert paint(line) == "\x1b[31mab\x1b[0m <c> \x1b[2mde\x1b[0m"
    assert html_of(line).count("<span") == 2
    assert "&lt;c&gt;" in html_of(line)
    assert paint(Line("plain")) == "plain"


def test_a_box():
    assert boxed(["a", "bb"], [["1", "x"], ["22", "日"]], [True, False]) == [
        "+----+----+",
        "|  a | bb |",
        "|----+----|",
        "|  1 | x  |",
        "| 22 | 日 |",
        "+----+----+",
    ]
