"""Reporters of the older API: they are asked whether it is time and are then given the trials.

Without one, `tune` shows a live view of its own. A user's class needs no more than `should_report` and `report`.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
import time
from typing import TYPE_CHECKING, Any

from eagleray.tune._console import text
from eagleray.tune._console.screen import Page, in_notebook, write_all
from eagleray.tune._console.table import Line, boxed
from eagleray.tune.analysis._history import is_number
from eagleray.tune.analysis.experiment_analysis import is_better
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.metrics import look_up
from eagleray.tune.result import (
    BOOKKEEPING_KEYS,
    EPISODE_REWARD_MEAN,
    MEAN_ACCURACY,
    MEAN_LOSS,
    TIME_TOTAL_S,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: In the order in which trials are listed.
_ORDER = (Trial.RUNNING, Trial.PAUSED, Trial.PENDING, Trial.TERMINATED, Trial.ERROR)


class ProgressReporter:
    """Base of all reporters. The engine calls `setup` once, then `should_report` often and `report` when that says so."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what is known of the experiment before it begins."""

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:  # noqa: FBT001, FBT002 - as Ray has it
        """Say whether to report now; `done` after the last trial has ended."""
        raise NotImplementedError(f"{type(self).__name__} has no should_report()")

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: Any) -> None:  # noqa: FBT001 - as Ray has it
        """Report on the trials. `sys_info` are lines on what is used of this machine."""
        raise NotImplementedError(f"{type(self).__name__} has no report()")


class TuneReporterBase(ProgressReporter):
    """Renders trials as a table of text. Subclasses say where it goes.

    `metric_columns` and `parameter_columns` name what is shown, as a list or with titles as a dict; without them these are
    the usual metrics, up to `infer_limit` more that the trials report, and the parameters that differ.
    """

    #: Metrics that are shown if trials report them, with their titles.
    DEFAULT_COLUMNS: Mapping[str, str] = {
        MEAN_ACCURACY: "acc",
        MEAN_LOSS: "loss",
        TRAINING_ITERATION: "iter",
        TIME_TOTAL_S: "total time (s)",
        TIMESTEPS_TOTAL: "ts",
        EPISODE_REWARD_MEAN: "reward",
    }

    def __init__(
        self,
        metric_columns: list[str] | dict[str, str] | None = None,
        parameter_columns: list[str] | dict[str, str] | None = None,
        *,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: float = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
        total_samples: int | None = None,
    ) -> None:
        if mode is not None and mode not in ("min", "max"):
            raise ValueError("`mode` has to be None or one of [min, max]")
        self._is_inferring = metric_columns is None
        self._metric_columns: list[str] | dict[str, str] = (
            dict(self.DEFAULT_COLUMNS) if metric_columns is None else metric_columns.copy()
        )
        self._parameter_columns: list[str] | dict[str, str] = (
            [] if parameter_columns is None else parameter_columns.copy()
        )
        self._max_progress_rows = max_progress_rows
        self._max_error_rows = max_error_rows
        self._max_column_length = max_column_length
        self._max_report_frequency = max_report_frequency
        self._infer_limit = infer_limit
        self._print_intermediate_tables = True if print_intermediate_tables is None else print_intermediate_tables
        self._metric = metric
        self._mode = mode
        self._sort_by_metric = sort_by_metric
        self._total_samples = total_samples
        self._start_time = time.time()
        self._last_report_time = 0.0
        self._inferred: dict[str, str] = {}

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what is known of the experiment, unless the user has said otherwise."""
        del kwargs
        self.set_start_time(start_time)
        if self._total_samples is None:
            self._total_samples = total_samples
        self.set_search_properties(metric, mode)

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Take metric and mode of the experiment; False if the reporter has others of its own."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric = metric or self._metric
        self._mode = mode or self._mode
        return True

    def set_total_samples(self, total_samples: int | None) -> None:
        """Take how many trials there will be."""
        self._total_samples = total_samples

    def set_start_time(self, timestamp: float | None = None) -> None:
        """Take when the experiment began; by default now."""
        self._start_time = time.time() if timestamp is None else timestamp

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:  # noqa: FBT001, FBT002 - as Ray has it
        """Say yes every `max_report_frequency` seconds, and at the end."""
        del trials
        now = time.time()
        if not done and now - self._last_report_time < self._max_report_frequency:
            return False
        self._last_report_time = now
        return True

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show one more metric, with a title if the columns have titles."""
        self._metric_columns = _with_column(self._metric_columns, metric, representation, "metric_columns")

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show one more parameter, with a title if the columns have titles."""
        if not self._parameter_columns and representation is not None:
            self._parameter_columns = {}
        self._parameter_columns = _with_column(self._parameter_columns, parameter, representation, "parameter_columns")

    def _progress_str(
        self,
        trials: Sequence[Trial],
        done: bool,  # noqa: FBT001 - as Ray has it
        *sys_info: Any,
        fmt: str = "psql",
        delim: str = "\n",
    ) -> str:
        """Give the whole report as text."""
        del fmt  # there is only one
        lines = ["== Status ==", _time_passed(self._start_time, time.time())]
        lines += [str(info) for info in sys_info]
        best = self._current_best_trial(trials)
        if best is not None and self._metric is not None:
            lines.append(_best_line(best, self._metric, self._parameter_columns))
        lines.append(_count_line(trials, self._total_samples))
        has_table = done or self._print_intermediate_tables
        if has_table:
            lines += self._table(
                trials, rows_max=max(self._max_progress_rows, len(trials)) if done else self._max_progress_rows
            )
        lines += self._error_table(trials)
        return delim.join(lines) + delim

    def _current_best_trial(self, trials: Iterable[Trial]) -> Trial | None:
        if self._metric is None or self._mode is None:
            return None
        best: tuple[float, Trial] | None = None
        for trial in trials:
            value = look_up(trial.last_result, self._metric)
            if not is_number(value) or math.isnan(value):
                continue
            if best is None or is_better(value, best[0], self._mode):
                best = (value, trial)
        return None if best is None else best[1]

    def _infer_user_metrics(self, trials: Iterable[Trial]) -> dict[str, str]:
        """Find metrics that the user reports: numbers that Tune did not add. What was found once stays."""
        for trial in trials:
            for name, value in trial.last_result.items():
                if len(self._inferred) >= self._infer_limit:
                    return self._inferred
                if name not in BOOKKEEPING_KEYS and name not in self.DEFAULT_COLUMNS and is_number(value):
                    self._inferred[name] = name
        return self._inferred

    def _table(self, trials: Sequence[Trial], rows_max: int) -> list[str]:
        if not trials:
            return []
        shown = self._shown(trials, rows_max)
        params = _titles(self._parameter_columns) or {name: name for trial in shown for name in trial.evaluated_params}
        metrics = _titles(self._metric_columns)
        if self._is_inferring:
            metrics |= self._infer_user_metrics(shown)
        # A metric that nobody reports has no column.
        metrics = {
            name: title
            for name, title in metrics.items()
            if any(look_up(trial.last_result, name) is not None for trial in shown)
        }
        titles = ["Trial name", "status", "loc", *params.values(), *metrics.values()]
        rows: list[list[Any]] = [
            [
                str(trial),
                trial.status,
                _location(trial),
                *(_param(trial, name) for name in params),
                *(look_up(trial.last_result, name) for name in metrics),
            ]
            for trial in shown
        ]
        lines = self._boxed(titles, rows)
        if len(shown) < len(trials):
            hidden = _by_status(trials)
            for trial in shown:
                hidden[trial.status] -= 1
            told = ", ".join(f"{count} {status}" for status, count in hidden.items() if count)
            lines.append(f"... {len(trials) - len(shown)} more trials not shown ({told})")
        return lines

    def _error_table(self, trials: Sequence[Trial]) -> list[str]:
        failed = [trial for trial in trials if trial.status == Trial.ERROR]
        if not failed:
            return []
        shown = failed[: self._max_error_rows]
        lines = [f"Number of errored trials: {len(failed)}"]
        rows = [
            [str(trial), trial.num_failures, "" if trial.path is None else str(trial.path / "error.txt")]
            for trial in shown
        ]
        lines += boxed(
            ["Trial name", "# failures", "error file"],
            [[text.value(cell) for cell in row] for row in rows],
            [False, True, False],
        )
        if len(failed) > len(shown):
            lines.append(f"... {len(failed) - len(shown)} more errored trials not shown")
        return lines

    def _boxed(self, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
        limit = self._max_column_length
        is_right = [
            all(cell is None or text.is_plain_number(cell) for cell in column) for column in zip(*rows, strict=True)
        ]
        cells = [
            # A trial's name is what one looks it up by; it is never cut.
            [
                text.clean(str(cell)) if at == 0 else text.fit_end(text.value(cell), limit, ellipsis="...")
                for at, cell in enumerate(row)
            ]
            for row in rows
        ]
        return boxed([text.fit_end(text.clean(title), limit, ellipsis="...") for title in titles], cells, is_right)

    def _shown(self, trials: Sequence[Trial], rows_max: int) -> list[Trial]:
        """Choose the trials to list, each status getting its share of the rows."""
        groups: dict[str, list[Trial]] = {}
        for trial in trials:
            groups.setdefault(trial.status, []).append(trial)
        if self._sort_by_metric and self._metric is not None and self._mode is not None:
            for group in groups.values():
                group.sort(key=lambda trial: _sort_key(trial, str(self._metric), str(self._mode)))
        quotas = _fair_shares({status: len(group) for status, group in groups.items()}, rows_max)
        ordered = [status for status in _ORDER if status in groups] + [
            status for status in groups if status not in _ORDER
        ]
        return [trial for status in ordered for trial in groups[status][: quotas[status]]]


class CLIReporter(TuneReporterBase):
    """Prints a table to the terminal every few seconds."""

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: Any) -> None:  # noqa: FBT001 - as Ray has it
        """Print the report."""
        write_all(sys.stdout, self._progress_str(trials, done, *sys_info) + "\n")


class JupyterNotebookReporter(TuneReporterBase):
    """Shows a table in a notebook, replaced in place unless `overwrite` is False."""

    def __init__(self, overwrite: bool = True, **kwargs: Any) -> None:  # noqa: FBT001, FBT002 - as Ray has it
        super().__init__(**kwargs)
        self._overwrite = overwrite
        self._handle: Any = None
        if not in_notebook():
            import warnings

            warnings.warn("JupyterNotebookReporter is made for notebooks; elsewhere use CLIReporter.", stacklevel=2)

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: Any) -> None:  # noqa: FBT001 - as Ray has it
        """Show the report."""
        from IPython.display import display

        page = Page([Line(line) for line in self._progress_str(trials, done, *sys_info).split("\n")])
        if self._handle is not None and self._overwrite:
            self._handle.update(page)
        else:
            self._handle = display(page, display_id=True)


def _with_column(
    columns: list[str] | dict[str, str], name: str, title: str | None, which: str
) -> list[str] | dict[str, str]:
    if name in columns:
        raise ValueError(f"Column {name} already exists.")
    if isinstance(columns, dict):
        return {**columns, name: title or name}
    if title is not None and title != name:
        raise ValueError(f"`representation` cannot be non-None if `{which}` was initialized with a list.")
    return [*columns, name]


def _titles(columns: list[str] | dict[str, str]) -> dict[str, str]:
    return dict(columns) if isinstance(columns, dict) else {name: name for name in columns}


def _param(trial: Trial, name: str) -> Any:
    found = trial.evaluated_params.get(name)
    return look_up(trial.config, name) if found is None else found


def _location(trial: Trial) -> str:
    ip, pid = trial.last_result.get("node_ip"), trial.last_result.get("pid")
    return f"{ip}:{pid}" if ip and pid else ""


def _by_status(trials: Iterable[Trial]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for trial in trials:
        counts[trial.status] = counts.get(trial.status, 0) + 1
    return dict(sorted(counts.items()))


def _count_line(trials: Sequence[Trial], total: int | None) -> str:
    told = ", ".join(f"{count} {status}" for status, count in _by_status(trials).items())
    of = "" if not total or total < len(trials) or not math.isfinite(total) else f"/{total}"
    return f"Number of trials: {len(trials)}{of}" + (f" ({told})" if told else "")


def _best_line(trial: Trial, metric: str, columns: list[str] | dict[str, str]) -> str:
    config = trial.last_result.get("config", trial.config)
    shown = {name: look_up(config, name) for name in columns} if columns else config
    return f"Current best trial: {trial.trial_id} with {metric}={text.value(look_up(trial.last_result, metric))} and parameters={text.literal(shown)}"


def _time_passed(start: float, now: float) -> str:
    passed = max(now - start, 0.0)
    days, rest = divmod(passed, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    told = f"{int(days)} days, " if days else ""
    when = dt.datetime.fromtimestamp(now).strftime("%Y-%m-%d %H:%M:%S")
    return f"Current time: {when} (running for {told}{int(hours):02d}:{int(minutes):02d}:{rest:05.2f})"


def _sort_key(trial: Trial, metric: str, mode: str) -> tuple[bool, float]:
    """Order by a metric, best first; trials without it go last."""
    value = look_up(trial.last_result, metric)
    if not is_number(value) or math.isnan(value):
        return True, 0.0
    return False, -float(value) if mode == "max" else float(value)


def _fair_shares(counts: Mapping[str, int], rows: int) -> dict[str, int]:
    """Share rows among statuses: one that needs less than its share leaves the rest to the others."""
    shares = dict.fromkeys(counts, 0)
    left = min(rows, sum(counts.values()))
    while left > 0:
        hungry = [status for status in _ORDER if shares.get(status, 0) < counts.get(status, 0)]
        hungry += [status for status in counts if status not in _ORDER and shares[status] < counts[status]]
        each = max(left // len(hungry), 1)
        for status in hungry[:left]:
            more = min(each, counts[status] - shares[status], left)
            shares[status] += more
            left -= more
    return shares
