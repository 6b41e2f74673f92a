"""Times a job: warm-up, a repeat count that fills a round, then several rounds of which the median counts."""

from __future__ import annotations

import gc
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

ROUNDS = 5
LIMIT_SECONDS = 60.0
# A single repeat this long is not thrown away as warm-up, and no further round starts past the second figure.
LONG_REPEAT_SECONDS = 10.0
ENOUGH_SECONDS = 30.0

# A job does `repeats` repeats of its work. It may return the seconds that count, where not all of its time does.
Job = Callable[[int], float | None]


@dataclass(frozen=True)
class Timing:
    """How long a case is measured: timed seconds of all rounds together, and the number of rounds."""

    seconds: float
    rounds: int


@dataclass
class Rounds:
    """Seconds per repeat, one entry per round; filled in as rounds finish, so that a late failure loses little."""

    seconds: list[float] = field(default_factory=list)
    repeats: int = 0

    @property
    def median(self) -> float:
        """Median seconds per repeat."""
        return statistics.median(self.seconds)


class OutOfTime(Exception):
    """A case ran past its time limit."""


def bench_seconds() -> float:
    """Timed seconds per case, all rounds together; EAGLERAY_BENCH_SECONDS overrides."""
    return float(os.environ.get("EAGLERAY_BENCH_SECONDS", "1.0"))


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise OutOfTime in the main thread once the time is up."""

    def on_alarm(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTime(f"{what} took longer than {seconds:.0f} s")

    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


def measure(job: Job, timing: Timing, *, repeats_min: int, into: Rounds) -> None:
    """Warm the job up, then time as many rounds as asked for, together at least as long as asked for."""
    per_repeat = _warm_up(job, timing.seconds / 2, repeats_min)
    if per_repeat >= LONG_REPEAT_SECONDS:
        into.seconds.append(per_repeat)
    into.repeats = max(repeats_min, round(timing.seconds / timing.rounds / per_repeat))
    spent = sum(into.seconds)
    while len(into.seconds) < timing.rounds and spent < ENOUGH_SECONDS:
        gc.collect()
        elapsed = _timed(job, into.repeats)
        into.seconds.append(elapsed / into.repeats)
        spent += elapsed


def _warm_up(job: Job, seconds: float, repeats_min: int) -> float:
    """Run ever more repeats until the time is spent; returns seconds per repeat of the last run."""
    began = time.perf_counter()
    elapsed = _timed(job, 1)
    if elapsed >= LONG_REPEAT_SECONDS:
        return elapsed
    # The first run holds one-off costs (workers, rings, connections), so at least one more follows.
    repeats = repeats_min
    while True:
        per_repeat = _timed(job, repeats) / repeats
        left = seconds - (time.perf_counter() - began)
        if left <= 0:
            return per_repeat
        repeats = max(1, min(2 * repeats, round(left / per_repeat)))


def _timed(job: Job, repeats: int) -> float:
    began = time.perf_counter()
    counted = job(repeats)
    return time.perf_counter() - began if counted is None else counted
