"""What is drawn: trials with their parameters and the values of one metric, wherever they come from."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune import _files
from eagleray.tune.metrics import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass
class Run:
    """One trial."""

    number: int
    name: str
    params: dict[str, Any]
    #: (x, value) of each result that has both.
    points: list[tuple[float, float]] = field(default_factory=list)
    #: The value of its last result; nan if there is none.
    last: float = math.nan

    def value(self, scope: str, mode: str) -> float:
        """Give the last value, or the best there was."""
        if scope == "last":
            return self.last
        known = [value for _, value in self.points if math.isfinite(value)]
        if not known:
            return self.last
        return max(known) if mode == "max" else min(known)


def check(mode: str, scope: str = "last") -> None:
    """Refuse what makes no sense."""
    if mode not in ("min", "max"):
        raise ValueError(f"mode is 'min' or 'max', got {mode!r}")
    if scope not in ("last", "best"):
        raise ValueError(f"scope is 'last' or 'best', got {scope!r}")


def runs(results: Any, metric: str, x: str = "training_iteration") -> list[Run]:
    """Make runs of a folder, a `ResultGrid`, an `ExperimentAnalysis`, or a list of results or trials."""
    if isinstance(results, str | os.PathLike):
        results = _files.read(results, history=True)
    if isinstance(results, _files.ExperimentFiles):
        found = [_of_files(trial, metric, x) for trial in results.trials]
    else:
        trials = getattr(results, "trials", None)
        items: Iterable[Any] = results if trials is None else trials
        found = [_of_object(number, one, metric, x) for number, one in enumerate(items)]
    if not any(math.isfinite(run.last) for run in found):
        raise ValueError(f"no trial has reported a finite {metric!r}")
    _keep_varied(found)
    return found


def _of_files(trial: _files.TrialFiles, metric: str, x: str) -> Run:
    params = trial.params or _files.flat(trial.config)
    run = Run(trial.number, trial.name, params)
    _fill(run, trial.results or ([trial.last] if trial.last else []), metric, x)
    return run


def _of_object(number: int, one: Any, metric: str, x: str) -> Run:
    """A `Result` or a `Trial`: both have a configuration, a last result and, mostly, a folder."""
    last = getattr(one, "last_result", None) or getattr(one, "metrics", None) or {}
    chosen = getattr(one, "evaluated_params", None) or getattr(one, "config", None) or {}
    folder = getattr(one, "path", None)
    name = str(last.get("trial_id", "")) or (Path(folder).name if folder else str(number))
    run = Run(getattr(one, "number", number), name, _files.flat(chosen))
    results = _history(one, folder)
    _fill(run, results or ([last] if last else []), metric, x)
    return run


def _history(one: Any, folder: Any) -> list[dict[str, Any]]:
    if folder is not None and Path(folder, "result.json").exists():
        return list(_files._lines(Path(folder, "result.json")))
    frame = getattr(one, "metrics_dataframe", None)
    return [] if frame is None else frame.to_dict("records")


def _fill(run: Run, results: list[dict[str, Any]], metric: str, x: str) -> None:
    for place, result in enumerate(results, start=1):
        value = number_of(look_up(result, metric))
        if value is None:
            continue
        at = number_of(look_up(result, x))
        run.points.append((float(place) if at is None else at, value))
        run.last = value


def number_of(value: Any) -> float | None:
    """Give it as a number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _keep_varied(found: list[Run]) -> None:
    """A parameter that is the same everywhere says nothing."""
    keys = dict.fromkeys(key for run in found for key in run.params)
    varied = [key for key in keys if len({repr(run.params.get(key, "")) for run in found}) > 1]
    for run in found:
        run.params = {key: run.params[key] for key in varied if key in run.params}


def parameters(found: list[Run]) -> list[str]:
    """Name all parameters, in the order of the space."""
    return list(dict.fromkeys(key for run in found for key in run.params))


def columns(found: list[Run], key: str) -> Iterator[Any]:
    """Give the values of one parameter, None where a trial does not have it."""
    return (run.params.get(key) for run in found)
