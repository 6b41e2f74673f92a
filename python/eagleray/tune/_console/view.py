"""What the engine tells of an experiment, and who shows it.

The engine calls `on_status` and `on_result` as things happen, `refresh` whenever it comes by, and `close` once. A view of
ours draws from a thread of its own, so that time goes on while the engine waits, and so that Ctrl-C, which strikes the
main thread, never leaves half a drawing. A user's reporter is called from the engine's thread only.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from eagleray.tune._console import frame, screen, text
from eagleray.tune._console.board import Board, name_of
from eagleray.tune._console.verbosity import Verbosity, verbosity_of
from eagleray.tune.experiment.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from eagleray.tune._console.table import Line
    from eagleray.tune.progress_reporter import ProgressReporter

logger = logging.getLogger(__name__)

#: Seconds between two drawings of a live view.
LIVE_S = 0.25
#: Seconds after which a log gets a block though nothing has changed, and the most between two though much has.
LOG_S = 30.0
#: The first changes of a log are told soon, later ones ever more rarely, up to LOG_S.
LOG_FIRST_S = 1.0
#: Messages of single results and trials that are told each time that the view looks; the rest is counted.
MESSAGES_MAX = 20
ROWS_MAX = 20
ERROR_ROWS_MAX = 5


class View:
    """What the engine calls."""

    def start(self) -> None:
        """Begin to show."""

    def on_status(self, trial: Trial, old: str | None, new: str) -> None:
        """A trial is new (`old` is None) or has changed its status."""

    def on_result(self, trial: Trial) -> None:
        """A trial has reported; its `last_result` is new."""

    def on_past(self, trial: Trial) -> None:
        """A trial of an earlier run, with all that it had reported."""

    def on_retry(self, trial: Trial, retries: int) -> None:
        """A trial has failed and is tried again, up to so many times; -1 for always."""

    def refresh(self, *, force: bool = False) -> None:
        """Show what is due, or all that is new with `force`. It costs next to nothing when nothing is due."""

    def close(self, state: str = "done") -> None:
        """Show the end: `done`, `interrupted` or `failed`. Later calls do nothing."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.close("interrupted" if issubclass(kind, KeyboardInterrupt) else "failed")


class SilentView(View):
    """Shows nothing."""


class Messages:
    """What is told of single results and trials, bounded."""

    def __init__(self, verbosity: Verbosity, metric: str | None) -> None:
        self._verbosity = verbosity
        self._metric = metric
        self._said: list[str] = []
        self._count = 0
        self._unsaid = 0

    def on_status(self, trial: Trial, new: str, *, tells_errors: bool) -> None:
        """Tell of a trial that ended, if anybody wants to know."""
        if new == Trial.ERROR and tells_errors:
            failure = frame.failure_of(trial)
            where = "" if failure.file is None else f", see {failure.file}"
            self._say([f"{failure.trial_id} failed: {text.clean(failure.error)}{where}"])
        elif self._verbosity >= Verbosity.V2_TRIAL_NORM and new in (Trial.RUNNING, Trial.TERMINATED):
            did = "started" if new == Trial.RUNNING else "ended"
            self._say([f"{text.clean(name_of(trial))} {did}"])

    def on_retry(self, trial: Trial, retries: int) -> None:
        """Tell of a failure after which a trial is tried again."""
        failure = frame.failure_of(trial)
        of = f" of {retries}" if retries >= 0 else ""
        where = "from its checkpoint" if trial.checkpoint is not None else "from the start"
        self._say(
            [f"{failure.trial_id} failed: {text.clean(failure.error)}; tried again {where} ({failure.failures}{of})"]
        )

    def on_result(self, trial: Trial) -> None:
        """Tell of a result, if anybody wants to know."""
        if self._verbosity < Verbosity.V2_TRIAL_NORM:
            return
        if self._count >= MESSAGES_MAX:
            self._unsaid += 1
        elif self._verbosity >= Verbosity.V3_TRIAL_DETAILS:
            self._say(frame.detailed(trial))
        else:
            self._say([frame.brief(trial, self._metric)])

    def _say(self, lines: list[str]) -> None:
        if self._count >= MESSAGES_MAX:
            self._unsaid += 1
            return
        self._count += 1
        self._said += lines

    def take(self) -> list[str]:
        """Give what was said since the last time."""
        said, self._said = self._said, []
        if self._unsaid:
            said.append(f"... {self._unsaid} more not shown")
        self._count = self._unsaid = 0
        return said


class ConsoleView(View):
    """A live view in a terminal or a notebook, blocks of text in a log."""

    def __init__(
        self,
        experiment: str,
        *,
        verbose: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        total_samples: int | None = None,
        folder: str | None = None,
        resources: Callable[[], str] | None = None,
        metric_columns: Mapping[str, str] | None = None,
        parameter_columns: Mapping[str, str] | None = None,
        rows_max: int = ROWS_MAX,
        where: screen.Screen | None = None,
        clock: Callable[[], float] = time.monotonic,
        is_threaded: bool = True,
    ) -> None:
        self._experiment = experiment
        self._board = Board(metric, mode, total_samples)
        self._metric = metric
        self._messages = Messages(verbosity_of(verbose), metric)
        self._folder = folder
        self._resources = resources
        self._metric_columns = metric_columns
        self._parameter_columns = parameter_columns
        self._rows_max = rows_max
        self._screen = where if where is not None else screen.choose()
        self._clock = clock
        self._is_threaded = is_threaded
        self._lock = threading.Lock()
        self._started = clock()
        self._drawn_at = -1e18
        self._gap = LOG_FIRST_S
        self._changes = 0
        self._changes_drawn = 0
        self._is_open = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to show."""
        self._started = self._clock()
        self._is_open = True
        self._screen.open()
        if not self._screen.is_live:
            # The first block of a log waits until there is something to tell.
            self._drawn_at = self._started
        if self._is_threaded:
            # In a notebook the context says which cell the output belongs to.
            run = contextvars.copy_context().run
            self._thread = threading.Thread(target=run, args=(self._run,), name="eagleray-tune-console", daemon=True)
            self._thread.start()

    def on_status(self, trial: Trial, old: str | None, new: str) -> None:
        """A trial is new (`old` is None) or has changed its status."""
        with self._lock:
            self._board.status(trial, old, new, self._clock())
            self._changes += 1
            self._messages.on_status(trial, new, tells_errors=not self._screen.is_live)

    def on_result(self, trial: Trial) -> None:
        """A trial has reported."""
        with self._lock:
            self._board.result(trial)
            self._messages.on_result(trial)

    def on_past(self, trial: Trial) -> None:
        """A trial of an earlier run."""
        with self._lock:
            self._board.past(trial)

    def on_retry(self, trial: Trial, retries: int) -> None:
        """A trial has failed and is tried again."""
        with self._lock:
            self._messages.on_retry(trial, retries)

    def refresh(self, *, force: bool = False) -> None:
        """Draw if it is due; with a thread of its own only on demand."""
        if force or not self._is_threaded:
            self._tick(force=force)

    def close(self, state: str = "done") -> None:
        """Draw the end, which stays."""
        if not self._is_open:
            return
        self._is_open = False
        self._wake.set()
        try:
            if self._thread is not None:
                self._thread.join(5.0)
                self._thread = None
            with self._lock:
                said = self._messages.take()
                lines = self._lines(state, used="", is_last=True)
            if said:
                self._screen.say(said)
            self._screen.finish(lines)
        finally:
            self._screen.close()

    def _run(self) -> None:
        while not self._wake.wait(LIVE_S):
            try:
                self._tick()
            except Exception:
                # An experiment does not end because it cannot be shown.
                logger.exception("the view of the experiment is switched off")
                return

    def _tick(self, *, force: bool = False) -> None:
        is_due = force or self._is_due()
        # Asked before the lock is taken: the engine must not wait for it.
        used = self._used() if is_due else ""
        with self._lock:
            said = self._messages.take()
            lines = self._lines("running", used=used) if is_due else None
        if said:
            self._screen.say(said)
        if lines is not None:
            self._screen.draw(lines)

    def _is_due(self) -> bool:
        passed = self._clock() - self._drawn_at
        if self._screen.is_live:
            return passed >= LIVE_S * 0.9
        if passed >= LOG_S:
            return True
        if passed < self._gap or self._changes == self._changes_drawn:
            return False
        self._gap = min(self._gap * 2, LOG_S)
        return True

    def _lines(self, state: str, *, used: str, is_last: bool = False) -> list[Line]:
        now = self._clock()
        self._drawn_at = now
        self._changes_drawn = self._changes
        columns, rows = self._screen.size()
        # Room for header, head and foot of the table; failures take two lines each.
        errors = ERROR_ROWS_MAX if rows is None or is_last else max(1, min(ERROR_ROWS_MAX, (rows - 14) // 6))
        failed = self._board.errors(errors)
        table_rows = self._rows_max
        if rows is not None and not is_last:
            taken = 15 + (2 * len(failed) + 3 if failed else 0)
            table_rows = max(1, min(self._rows_max, rows - taken))
        moment = frame.Moment(
            experiment=self._experiment,
            elapsed=now - self._started,
            counts=self._board.counts(),
            total=self._board.total,
            left=self._board.left(now),
            resources=used,
            best=self._board.best,
            trials=self._board.top(table_rows),
            failures=[frame.failure_of(trial) for trial in failed],
            failures_more=self._board.failed - len(failed),
            folder=self._folder,
            state=state,
        )
        shape = frame.Shape(
            # The last column stays free: a terminal that is full to its edge may break the line.
            width=columns - 1 if rows is not None else columns,
            metric=self._metric,
            metrics=self._metric_columns,
            params=self._parameter_columns,
            cuts_paths=rows is not None and not is_last,
            glyphs=self._screen.glyphs,
        )
        return frame.draw(moment, shape)

    def _used(self) -> str:
        if self._resources is None:
            return ""
        try:
            return self._resources()
        except Exception:
            # The session may be going down.
            return ""


class ReporterView(View):
    """Calls a user's reporter, or one of the old ones, as Ray does."""

    def __init__(
        self,
        reporter: ProgressReporter,
        *,
        verbose: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        total_samples: int | None = None,
        resources: Callable[[], str] | None = None,
    ) -> None:
        self._reporter = reporter
        self._metric = metric
        self._mode = mode
        self._total = total_samples
        self._resources = resources
        self._messages = Messages(verbosity_of(verbose), metric)
        self._trials: list[Trial] = []
        self._is_open = False

    def start(self) -> None:
        """Tell the reporter what is known."""
        self._is_open = True
        self._reporter.setup(start_time=time.time(), total_samples=self._total, metric=self._metric, mode=self._mode)

    def on_status(self, trial: Trial, old: str | None, new: str) -> None:
        """A trial is new (`old` is None) or has changed its status."""
        if old is None:
            self._trials.append(trial)
        self._messages.on_status(trial, new, tells_errors=False)

    def on_result(self, trial: Trial) -> None:
        """A trial has reported."""
        self._messages.on_result(trial)

    def on_retry(self, trial: Trial, retries: int) -> None:
        """A trial has failed and is tried again."""
        self._messages.on_retry(trial, retries)

    def refresh(self, *, force: bool = False) -> None:
        """Let the reporter report if it wants to."""
        if force or self._reporter.should_report(self._trials, done=False):
            self._report(done=False)

    def close(self, state: str = "done") -> None:
        """Let the reporter report the end."""
        if self._is_open:
            self._is_open = False
            if self._reporter.should_report(self._trials, done=True):
                self._report(done=True)

    def _report(self, *, done: bool) -> None:
        said = self._messages.take()
        if said:
            screen.write_all(sys.stdout, "".join(f"{line}\n" for line in said))
        extra: list[Any] = [] if self._resources is None else [self._resources()]
        self._reporter.report(self._trials, done, *extra)


def make_view(
    experiment: str,
    *,
    verbose: int | None = None,
    progress_reporter: ProgressReporter | None = None,
    metric: str | None = None,
    mode: str | None = None,
    total_samples: int | None = None,
    folder: str | None = None,
    resources: Callable[[], str] | None = None,
) -> View:
    """Give the view for an experiment: none, a user's reporter, or ours."""
    if verbosity_of(verbose) is Verbosity.V0_MINIMAL:
        return SilentView()
    if progress_reporter is not None:
        return ReporterView(
            progress_reporter,
            verbose=verbose,
            metric=metric,
            mode=mode,
            total_samples=total_samples,
            resources=resources,
        )
    return ConsoleView(
        experiment,
        verbose=verbose,
        metric=metric,
        mode=mode,
        total_samples=total_samples,
        folder=folder,
        resources=resources,
    )
