"""The reporters of the older API."""

import math

import pytest
from tests.python.tune.console import make_trial

from eagleray.tune import progress_reporter
from eagleray.tune.progress_reporter import CLIReporter, JupyterNotebookReporter, ProgressReporter, TuneReporterBase


def trials_of(*statuses, **metrics):
    return [
        make_trial(
            at,
            status,
            params={"a": at},
            **{name: values[at] for name, values in metrics.items() if values[at] is not None},
        )
        for at, status in enumerate(statuses)
    ]


FIVE = ("TERMINATED", "TERMINATED", "TERMINATED", "PENDING", "RUNNING")
SCORES = [0.3, 0.2, 0.4, None, None]


def table_of(reporter, trials, *, done=False):
    """Everything from the count of trials on: the lines before have the time in them."""
    printed = reporter._progress_str(trials, done)
    return printed[printed.index("Number of trials") :].rstrip("\n")


UNSORTED = """\
Number of trials: 5 (1 PENDING, 1 RUNNING, 3 TERMINATED)
+-------------------+------------+-----+---+----------+
| Trial name        | status     | loc | a | metric_1 |
|-------------------+------------+-----+---+----------|
| train_3f2a1_00004 | RUNNING    |     | 4 |          |
| train_3f2a1_00003 | PENDING    |     | 3 |          |
| train_3f2a1_00000 | TERMINATED |     | 0 |      0.3 |
| train_3f2a1_00001 | TERMINATED |     | 1 |      0.2 |
+-------------------+------------+-----+---+----------+
... 1 more trials not shown (1 TERMINATED)"""


def test_the_table_lists_what_runs_first():
    assert (
        table_of(CLIReporter(max_progress_rows=4, metric="metric_1", mode="max"), trials_of(*FIVE, metric_1=SCORES))
        == UNSORTED
    )


@pytest.mark.parametrize(("mode", "order"), [("min", [1, 0]), ("max", [2, 0])])
def test_each_status_may_be_sorted_by_the_metric(mode, order):
    reporter = CLIReporter(max_progress_rows=4, metric="metric_1", mode=mode, sort_by_metric=True)
    shown = reporter._shown(trials_of(*FIVE, metric_1=SCORES), 4)
    assert [trial.number for trial in shown] == [4, 3, *order]


@pytest.mark.parametrize("known", [{"metric": "metric_1"}, {"mode": "max"}, {}])
def test_without_metric_or_mode_nothing_is_sorted(known):
    reporter = CLIReporter(max_progress_rows=4, sort_by_metric=True, **known)
    assert [trial.number for trial in reporter._shown(trials_of(*FIVE, metric_1=SCORES), 4)] == [4, 3, 0, 1]


def test_trials_without_the_metric_or_with_nan_are_sorted_last():
    reporter = CLIReporter(metric="m", mode="min", sort_by_metric=True)
    trials = trials_of(*["RUNNING"] * 4, m=[math.nan, 2.0, None, 1.0])
    assert [trial.number for trial in reporter._shown(trials, 4)] == [3, 1, 0, 2]


def test_every_status_gets_its_share_of_the_rows():
    trials = trials_of(*["PAUSED"] * 2, *["ERROR"] * 2, *["PENDING"] * 10, *["RUNNING"] * 10, *["TERMINATED"] * 10)
    shown = [trial.status for trial in CLIReporter()._shown(trials, 13)]
    assert {status: shown.count(status) for status in set(shown)} == {
        "PAUSED": 2,
        "ERROR": 2,
        "PENDING": 3,
        "RUNNING": 3,
        "TERMINATED": 3,
    }
    assert len(CLIReporter()._shown(trials, 1)) == 1
    assert len(CLIReporter()._shown(trials, 100)) == 34


def test_at_the_end_all_trials_are_listed():
    assert "more trials not shown" not in table_of(CLIReporter(max_progress_rows=2), trials_of(*FIVE), done=True)


def test_intermediate_tables_can_be_left_out():
    reporter = CLIReporter(print_intermediate_tables=False)
    assert "+---" not in reporter._progress_str(trials_of(*FIVE), False)
    assert "+---" in reporter._progress_str(trials_of(*FIVE), True)


def test_failures_are_listed_with_their_files():
    trials = [make_trial(at, "ERROR", failures=at + 1) for at in range(3)]
    printed = CLIReporter(max_error_rows=2)._progress_str(trials, False)
    assert "Number of errored trials: 3\n" in printed
    assert "| train_3f2a1_00001 |          2 | /results/exp/train_3f2a1_00001/error.txt |\n" in printed
    assert "... 1 more errored trials not shown\n" in printed


def test_the_head_of_the_report():
    reporter = CLIReporter(metric="m", mode="min")
    reporter.setup(start_time=1.0, total_samples=7)
    lines = reporter._progress_str(
        trials_of("RUNNING", "RUNNING", m=[2.0, 0.0]), False, "Resources requested: 2/8 CPU"
    ).split("\n")
    assert lines[0] == "== Status =="
    assert lines[1].startswith("Current time: ")
    assert lines[2:5] == [
        "Resources requested: 2/8 CPU",
        "Current best trial: 3f2a1_00001 with m=0 and parameters={'a': 1}",
        "Number of trials: 2/7 (2 RUNNING)",
    ]


def test_the_time_passed():
    day = 86400
    assert progress_reporter._time_passed(0.0, 3600 + 31 * 60 + 22).endswith("(running for 01:31:22.00)")
    assert progress_reporter._time_passed(0.0, 2 * day + 3600 + 1.5).endswith("(running for 2 days, 01:00:01.50)")


def test_the_best_parameters_are_those_that_were_asked_for():
    trial = make_trial(0, params={"a": 1}, m=1.0)
    trial.config = {"a": 1, "n": {"k": [1, 2]}}
    assert (
        CLIReporter(metric="m", mode="max")
        ._progress_str([trial], False)
        .count("parameters={'a': 1, 'n': {'k': [1, 2]}}")
        == 1
    )
    assert "parameters={'n/k': [1, 2]}" in CLIReporter(parameter_columns=["n/k"], metric="m", mode="max")._progress_str(
        [trial], False
    )


def test_columns_may_have_titles_and_nested_names():
    trial = make_trial(0, "RUNNING", nested={"sub": 0.5}, other=1)
    trial.config = {"a": {"b": 7}}
    printed = table_of(CLIReporter(metric_columns={"nested/sub": "Sub"}, parameter_columns={"a/b": "B"}), [trial])
    assert "| Trial name        | status  | loc | B | Sub |" in printed
    assert "| train_3f2a1_00000 | RUNNING |     | 7 | 0.5 |" in printed


def test_a_few_of_the_users_metrics_are_found_and_stay():
    reporter = CLIReporter(infer_limit=2)
    trials = [make_trial(0, "RUNNING", pid=1, done=False, name="x", config={}, flag=True, one=1, two=2.0, three=3)]
    assert list(reporter._infer_user_metrics(trials)) == ["one", "two"]
    assert list(reporter._infer_user_metrics([make_trial(1, "RUNNING", four=4)])) == ["one", "two"]
    assert "one" not in table_of(CLIReporter(metric_columns=["two"]), trials)


def test_long_values_are_cut_but_the_trials_name_is_not():
    trial = make_trial(0, "RUNNING", params={"verylong" * 20: 1}, some_metric="evenlonger" * 100)
    lines = table_of(CLIReporter(metric_columns=["some_metric"], max_column_length=20), [trial]).split("\n")
    assert max(len(line) for line in lines) < 110
    assert "train_3f2a1_00000" in lines[4]
    assert "| ...gverylongverylong |" in lines[2]


def test_columns_can_be_added():
    reporter = CLIReporter(metric_columns=["foo", "bar"])
    with pytest.raises(ValueError, match=r"Column bar already exists\."):
        reporter.add_metric_column("bar")
    with pytest.raises(ValueError, match="`representation` cannot be non-None"):
        reporter.add_metric_column("baz", "qux")
    reporter.add_metric_column("baz")
    assert reporter._metric_columns == ["foo", "bar", "baz"]
    reporter.add_parameter_column("lr")
    assert reporter._parameter_columns == ["lr"]

    reporter = CLIReporter()
    reporter.add_metric_column("foo", "bar")
    reporter.add_parameter_column("lr", "rate")
    assert reporter._metric_columns["foo"] == "bar"
    assert reporter._parameter_columns == {"lr": "rate"}
    # The class's own columns are not changed for everybody.
    assert "foo" not in CLIReporter()._metric_columns
    assert "foo" not in TuneReporterBase.DEFAULT_COLUMNS


def test_metric_and_mode_of_the_experiment_are_taken_unless_there_are_others():
    reporter = CLIReporter()
    reporter.setup(metric="loss", mode="min", total_samples=3, something_new=1)
    assert (reporter._metric, reporter._mode, reporter._total_samples) == ("loss", "min", 3)
    reporter = CLIReporter(metric="acc", mode="max", total_samples=9)
    reporter.setup(metric="loss", mode="min", total_samples=3)
    assert (reporter._metric, reporter._mode, reporter._total_samples) == ("acc", "max", 9)
    assert not reporter.set_search_properties("loss", "min")
    with pytest.raises(ValueError, match="`mode` has to be"):
        CLIReporter(mode="best")


def test_it_reports_no_more_often_than_asked_but_always_at_the_end(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress_reporter.time, "time", lambda: now[0])
    reporter = CLIReporter(max_report_frequency=5)
    assert reporter.should_report([])
    now[0] += 4.9
    assert not reporter.should_report([])
    assert reporter.should_report([], done=True)
    now[0] += 5.1
    assert reporter.should_report([], done=False)


def test_the_report_is_printed(capsys):
    CLIReporter().report(trials_of(*FIVE), False, "2/8 CPU")
    printed = capsys.readouterr().out
    assert printed.startswith("== Status ==\n")
    assert printed.endswith("+\n\n")
    assert "\x1b" not in printed


def test_no_trials_are_no_table():
    assert table_of(CLIReporter(), []) == "Number of trials: 0"


def test_a_subclass_of_a_user_needs_two_methods():
    class Mine(ProgressReporter):
        def should_report(self, trials, done=False):
            return True

        def report(self, trials, done, *sys_info):
            pass

    Mine().setup(start_time=1.0, total_samples=1, metric="a", mode="max", anything=2)
    with pytest.raises(NotImplementedError, match=r"ProgressReporter has no should_report\(\)"):
        ProgressReporter().should_report([])
    with pytest.raises(NotImplementedError, match=r"ProgressReporter has no report\(\)"):
        ProgressReporter().report([], False)


def test_a_notebook_is_drawn_over_or_not(monkeypatch):
    import sys
    import types

    shown = []

    class Handle:
        def update(self, page):
            shown.append(("update", page))

    inner = types.ModuleType("IPython.display")
    inner.display = lambda page, display_id: (shown.append(("display", page)), Handle())[1]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    monkeypatch.setattr(progress_reporter, "in_notebook", lambda: True)
    for overwrite in (True, False):
        reporter = JupyterNotebookReporter(overwrite=overwrite, metric_columns=["loss"])
        reporter.report(trials_of(*FIVE), False)
        reporter.report(trials_of(*FIVE), True)
    assert [how for how, _ in shown] == ["display", "update", "display", "display"]
    assert "<pre" in shown[0][1]._repr_html_()


def test_outside_of_a_notebook_its_reporter_warns():
    with pytest.warns(UserWarning, match="elsewhere use CLIReporter"):
        JupyterNotebookReporter()
