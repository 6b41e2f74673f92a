"""Keeps what a view shows, as things happen, so that to draw costs the rows that are drawn and not the trials that there are.

HOT: `result` runs once for each reported result, `status` once for each change. Both take constant time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from eagleray.tune.analysis._history import is_number
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.metrics import look_up

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In the order in which counts are told.
STATUSES = (Trial.RUNNING, Trial.PAUSED, Trial.PENDING, Trial.TERMINATED, Trial.ERROR)
_ENDED = (Trial.TERMINATED, Trial.ERROR)

#: Trials under way that are looked at to guess the time left.
_SAMPLE_MAX = 200


def name_of(trial: Trial) -> str:
    """What a trial is called: as the user wants it, or by its id, which is the same for all but for the number."""
    return trial.custom_name or trial.trial_id


@dataclass(frozen=True)
class Best:
    """The best value that any trial has reported so far."""

    trial_id: str
    metric: str
    value: float
    iteration: int | None
    params: dict[str, Any]


class Board:
    """Trials by status, the best result, and what time they took."""

    def __init__(self, metric: str | None = None, mode: str | None = None, total: int | None = None) -> None:
        self.metric = metric
        self.mode = mode
        self.best: Best | None = None
        self.results = 0
        #: How many trials there will be, if that is known.
        self.total = total if total is not None and 0 < total < math.inf else None
        # By id, in the order in which they came to be so.
        self._trials: dict[str, dict[str, Trial]] = {status: {} for status in STATUSES}
        self._sign = -1.0 if mode == "min" else 1.0
        self._best_score = -math.inf
        # Seconds of running. Since when each runs, as if it had never paused; what those have spent that wait to go on;
        # what those have that ended.
        self._since: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._spent_by_ended = 0.0
        self._ended_measured = 0
        self._first_start: float | None = None

    def status(self, trial: Trial, old: str | None, new: str, now: float) -> None:
        """A trial is new (`old` is None) or changed its status."""
        key = trial.trial_id
        if old is not None:
            self._trials.setdefault(old, {}).pop(key, None)
        self._trials.setdefault(new, {})[key] = trial
        since = self._since.pop(key, None)
        if since is not None:
            self._spent[key] = now - since
        if new == Trial.RUNNING:
            self._since[key] = now - self._spent.pop(key, 0.0)
            if self._first_start is None:
                self._first_start = now
        elif new in _ENDED:
            spent = self._spent.pop(key, None)
            if spent is not None:
                self._spent_by_ended += spent
                self._ended_measured += 1

    def result(self, trial: Trial) -> None:
        """A trial reported: its `last_result` is new."""
        self.results += 1
        metric = self.metric
        if metric is None:
            return
        value = trial.last_result.get(metric)
        if value is None:
            value = look_up(trial.last_result, metric)
        self._compare(trial, value)

    def past(self, trial: Trial) -> None:
        """A trial of an earlier run: the best that it had reported counts."""
        if self.metric is not None:
            self._compare(trial, trial.metric_analysis.get(self.metric, {}).get(self.mode or "max"))

    def _compare(self, trial: Trial, value: Any) -> None:
        metric = self.metric
        if metric is None or not is_number(value):
            return
        score = self._sign * float(value)
        # A value that is not a number compares false; an infinite one is a failure, not a record.
        if score > self._best_score and math.isfinite(score):
            self._best_score = score
            last = trial.last_result
            # Of an earlier run only the last iteration is known.
            iteration = last.get("training_iteration") if look_up(last, metric) == value else None
            self.best = Best(name_of(trial), metric, float(value), iteration, dict(trial.evaluated_params))

    def counts(self) -> dict[str, int]:
        """Give how many trials there are of each status that any has."""
        return {status: len(trials) for status, trials in self._trials.items() if trials}

    @property
    def known(self) -> int:
        """How many trials there are so far."""
        return sum(len(trials) for trials in self._trials.values())

    @property
    def ended(self) -> int:
        """How many trials have come to an end, good or bad."""
        return sum(len(self._trials[status]) for status in _ENDED)

    @property
    def failed(self) -> int:
        """How many trials have failed."""
        return len(self._trials[Trial.ERROR])

    def top(self, rows: int) -> list[Trial]:
        """Give the trials to show: what runs, newest first, then what ended last, then what waits.

        A quarter of the rows is left to those that ended, since they are what the user waits for.
        """
        for_ended = min(rows // 4, self.ended)
        running = _newest(self._trials[Trial.RUNNING], rows - for_ended)
        shown = list(running)
        failed = self.errors(rows - len(shown))
        # Failures have a table of their own too; a few of them are enough here, unless there is nothing else.
        shown.extend(failed[:3])
        shown.extend(_newest(self._trials[Trial.TERMINATED], rows - len(shown)))
        shown.extend(failed[3 : 3 + rows - len(shown)])
        for status in self._trials:
            if status not in (Trial.RUNNING, *_ENDED):
                shown.extend(_oldest(self._trials[status], rows - len(shown)))
        return shown[: max(rows, 0)]

    def errors(self, rows: int) -> list[Trial]:
        """Give the trials that failed, the latest first."""
        return list(_newest(self._trials[Trial.ERROR], rows))

    def left(self, now: float) -> float | None:
        """Guess the seconds that are left, from the time that trials take and how many have run at once.

        A trial that already runs for longer than those that ended took is counted like one of them: the first to end
        are the short ones.
        """
        if self.total is None or not self._ended_measured or self._first_start is None:
            return None
        remaining = max(self.total, self.known) - self.ended
        passed = now - self._first_start
        if remaining <= 0 or passed <= 0:
            return None
        under_way = [now - since for since in islice(self._since.values(), _SAMPLE_MAX)]
        under_way += islice(self._spent.values(), _SAMPLE_MAX)
        begun = len(self._since) + len(self._spent)
        # Each of the sample stands for so many.
        weight = begun / len(under_way) if under_way else 1.0
        mean = self._spent_by_ended / self._ended_measured
        longer = [spent for spent in under_way if spent > mean]
        mean = (self._spent_by_ended + weight * sum(longer)) / (self._ended_measured + weight * len(longer))
        at_once = min(max((self._spent_by_ended + weight * sum(under_way)) / passed, 1e-9), remaining)
        work = mean * max(remaining - begun, 0) + weight * sum(max(mean - spent, 0.0) for spent in under_way)
        return work / at_once


def _newest(trials: dict[str, Trial], count: int) -> Iterator[Trial]:
    return islice(reversed(trials.values()), max(count, 0))


def _oldest(trials: dict[str, Trial], count: int) -> Iterator[Trial]:
    return islice(trials.values(), max(count, 0))
