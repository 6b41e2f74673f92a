"""Draws one moment of an experiment: what is known goes in, lines come out. No clock, no stream, no terminal in here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagleray.tune._console import text
from eagleray.tune._console.board import name_of
from eagleray.tune._console.table import UNICODE, Column, Glyphs, Line, Mark, lay_out
from eagleray.tune.analysis._history import flatten, is_number
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.metrics import look_up
from eagleray.tune.result import BOOKKEEPING_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from eagleray.tune._console.board import Best

#: Metrics that are shown beside the one that counts, unless the user names them.
METRICS_MAX = 4

#: Where the words after a label begin.
_INDENT = 10

#: How many lines the parameters of the best trial may take.
_BEST_LINES_MAX = 3


@dataclass(frozen=True)
class Failure:
    """One trial that failed."""

    trial_id: str
    failures: int
    error: str
    file: str | None


@dataclass(frozen=True)
class Moment:
    """All that is drawn."""

    experiment: str
    elapsed: float
    counts: Mapping[str, int] = field(default_factory=dict)
    total: int | None = None
    left: float | None = None
    resources: str = ""
    best: Best | None = None
    trials: Sequence[Trial] = ()
    failures: Sequence[Failure] = ()
    failures_more: int = 0
    folder: str | None = None
    #: Said of the experiment as a whole: `running`, `done`, `interrupted`, `failed`.
    state: str = "running"


@dataclass(frozen=True)
class Shape:
    """How it is drawn."""

    width: int
    #: The metric that counts; it is shown first and never left out.
    metric: str | None = None
    #: What the user wants to see instead of what is found: metric or parameter to title.
    metrics: Mapping[str, str] | None = None
    params: Mapping[str, str] | None = None
    cell_max: int = 20
    #: Whether paths are cut to the width. In a log they are not, so that they can be copied.
    cuts_paths: bool = True
    glyphs: Glyphs = UNICODE


def draw(moment: Moment, shape: Shape) -> list[Line]:
    """Give the lines of a whole view."""
    lines = header(moment, shape)
    if moment.trials:
        lines += [Line(""), *trial_table(moment.trials, shape)]
        shown = len(moment.trials)
        more = sum(moment.counts.values()) - shown
        if more > 0:
            hidden = _subtract(moment.counts, moment.trials)
            told = ", ".join(f"{count} {status}" for status, count in hidden.items())
            lines.append(
                _dim(
                    text.fit(
                        f"{shape.glyphs.ellipsis} {more} more ({told})", shape.width, ellipsis=shape.glyphs.ellipsis
                    )
                )
            )
    if moment.failures:
        lines += [Line(""), *failure_table(moment.failures, moment.failures_more, shape)]
    return lines


def header(moment: Moment, shape: Shape) -> list[Line]:
    """Give the lines above the table."""
    lines = _labelled("Tune", [moment.experiment], shape, kind="bold")
    spent = (
        f"{text.seconds(moment.elapsed)}, {moment.state}" if moment.state != "running" else text.seconds(moment.elapsed)
    )
    if moment.left is not None and moment.state == "running":
        spent += f", about {text.about(moment.left)} left"
    lines += _labelled("Time", [spent], shape)
    known = sum(moment.counts.values())
    of = f" of {moment.total}" if moment.total is not None and moment.total > known else ""
    told = [f"{count} {status}" for status, count in moment.counts.items()]
    lines += _labelled("Trials", [f"{known}{of}" + (":" if told else "")], shape, rest=told)
    if moment.resources:
        lines += _labelled("Uses", [text.clean(moment.resources)], shape)
    best = moment.best
    if best is not None:
        at = [] if best.iteration is None else [f"at iteration {best.iteration}"]
        params = [f"{text.clean(name)}={text.param(value)}" for name, value in best.params.items()]
        value = f"{text.clean(best.metric)}={text.number(best.value)}"
        lines += _labelled(
            "Best",
            [value, *at, f"of {text.clean(best.trial_id)}" + (":" if params else "")],
            shape,
            rest=params,
            kind="good",
        )
    if moment.folder is not None:
        folder = text.clean(moment.folder)
        if shape.cuts_paths:
            folder = text.fit_end(folder, shape.width - _INDENT, ellipsis=shape.glyphs.ellipsis)
        lines.append(Line(f"{'Results':<{_INDENT}}{folder}"))
    return lines


def trial_table(trials: Sequence[Trial], shape: Shape) -> list[Line]:
    """Give the table of these trials. Columns for which there is no room are named below it."""
    columns = [
        Column("status", [trial.status for trial in trials], kinds=[trial.status for trial in trials]),
        Column("trial", [text.clean(name_of(trial)) for trial in trials]),
    ]
    params = shape.params if shape.params is not None else {name: name for name in _params(trials)}
    columns += [
        _column(title, [_param(trial, name) for trial in trials], drop=200 + place)
        for place, (name, title) in enumerate(params.items())
    ]
    last = [trial.last_result for trial in trials]
    metrics = shape.metrics if shape.metrics is not None else _metrics(last, shape.metric)
    if shape.metrics is None:
        columns.append(_column("iter", [row.get("training_iteration") for row in last], drop=10))
        columns.append(Column("time", [_time(row) for row in last], is_right=True, drop=20))
    for place, (name, title) in enumerate(metrics.items()):
        drop = 0 if name == shape.metric else 300 + place
        columns.append(_column(title, [look_up(row, name) for row in last], drop=drop))
    lines, left_out = lay_out(columns, shape.width, cell_max=shape.cell_max, glyphs=shape.glyphs)
    if left_out:
        told = f"not shown: {', '.join(left_out)}"
        lines.append(_dim(text.fit(told, shape.width, ellipsis=shape.glyphs.ellipsis)))
    return lines


def failure_table(failures: Sequence[Failure], more: int, shape: Shape) -> list[Line]:
    """Give the trials that failed, each with what it said and where all of it is written."""
    count = len(failures) + more
    lines = [Line(f"{count} failed", (Mark(0, len(f"{count} failed"), Trial.ERROR),))]
    for failure in failures:
        often = f" ({failure.failures} times)" if failure.failures > 1 else ""
        told = f"{failure.trial_id}  {text.clean(failure.error)}{often}"
        lines.append(Line("  " + text.fit(told, shape.width - 2, ellipsis=shape.glyphs.ellipsis)))
        if failure.file is not None:
            file = text.clean(failure.file)
            if shape.cuts_paths:
                file = text.fit_end(file, shape.width - 4, ellipsis=shape.glyphs.ellipsis)
            lines.append(_dim("    " + file))
    if more > 0:
        lines.append(_dim(f"  {shape.glyphs.ellipsis} {more} more"))
    return lines


def brief(trial: Trial, metric: str | None = None) -> str:
    """Tell of a trial's last result in one line."""
    row = trial.last_result
    parts = [text.clean(name_of(trial))]
    if row.get("training_iteration") is not None:
        parts.append(f"iteration {row['training_iteration']}")
    if _time(row):
        parts.append(_time(row))
    parts += [f"{text.clean(name)}={text.value(look_up(row, name))}" for name in _metrics([row], metric)]
    return "  ".join(parts)


def detailed(trial: Trial) -> list[str]:
    """Tell of a trial's last result in full, one line for each value."""
    lines = [f"Result of {text.clean(name_of(trial))}:"]
    lines += [
        f"  {text.clean(str(name))}: {text.value(value)}" for name, value in sorted(flatten(trial.last_result).items())
    ]
    return lines


def failure_of(trial: Trial) -> Failure:
    """Sum up why a trial failed."""
    error = trial.error
    said = "" if error is None else _last_line(str(error))
    name = "failed" if error is None else type(error).__name__
    file = None if trial.path is None else str(trial.path / "error.txt")
    return Failure(text.clean(name_of(trial)), trial.num_failures, f"{name}: {said}" if said else name, file)


def _last_line(said: str) -> str:
    # The text of a remote error is a whole traceback, which ends with what went wrong.
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _labelled(label: str, first: list[str], shape: Shape, *, rest: Iterable[str] = (), kind: str = "") -> list[Line]:
    """Give `label  first first rest, rest, ...`, broken into lines where it must be."""
    room = shape.width - _INDENT
    pieces = list(rest)
    words = [text.clean(word) for word in first] + [f"{piece}," for piece in pieces[:-1]] + pieces[-1:]
    rows = [""]
    for word in words:
        if not rows[-1]:
            rows[-1] = text.fit(word, room, ellipsis=shape.glyphs.ellipsis)
        elif text.width(rows[-1]) + 1 + text.width(word) <= room:
            rows[-1] += " " + word
        elif len(rows) < _BEST_LINES_MAX:
            rows.append(text.fit(word, room, ellipsis=shape.glyphs.ellipsis))
        else:
            rows[-1] = text.fit(f"{rows[-1]} {shape.glyphs.ellipsis}", room, ellipsis=shape.glyphs.ellipsis)
            break
    lines = [Line(f"{label if at == 0 else '':<{_INDENT}}{row}".rstrip()) for at, row in enumerate(rows)]
    if kind:
        lines[0] = Line(lines[0].text, (Mark(_INDENT, len(lines[0].text), kind),))
    return lines


def _column(title: str, values: Sequence[Any], *, drop: int) -> Column:
    is_right = all(value is None or text.is_plain_number(value) or is_number(value) for value in values)
    return Column(text.clean(title), [text.value(value) for value in values], is_right=is_right, drop=drop)


def _params(trials: Iterable[Trial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in list(trial.evaluated_params)))


def _param(trial: Trial, name: str) -> Any:
    if name in trial.evaluated_params:
        # A parameter may be None; a cell without a value is one that the trial does not have.
        found = trial.evaluated_params[name]
        return text.param(found) if found is None else found
    return look_up(trial.config, name)


def _metrics(rows: Iterable[Mapping[str, Any]], metric: str | None) -> dict[str, str]:
    """Find the metrics to show: the one that counts, then the first numbers that the user reports."""
    found = {} if metric is None else {metric: metric}
    for row in rows:
        # Copied at once: the engine may add to it meanwhile.
        for name, value in list(row.items()):
            if len(found) > METRICS_MAX:
                return found
            if name not in BOOKKEEPING_KEYS and name not in found and is_number(value):
                found[name] = name
    return found


def _time(row: Mapping[str, Any]) -> str:
    spent = row.get("time_total_s")
    return text.seconds(float(spent)) if is_number(spent) else ""


def _subtract(counts: Mapping[str, int], trials: Iterable[Trial]) -> dict[str, int]:
    hidden = dict(counts)
    for trial in trials:
        hidden[trial.status] = hidden.get(trial.status, 0) - 1
    return {status: count for status, count in hidden.items() if count > 0}


def _dim(words: str) -> Line:
    return Line(words, (Mark(0, len(words), "dim"),))
