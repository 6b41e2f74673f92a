"""Starts an experiment, anew or where another run of it was."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
import os
import secrets
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray._native import tune as native
from eagleray.tune import _replay, _resolve, _storage
from eagleray.tune._console import SilentView, View, make_view
from eagleray.tune._engine import Engine
from eagleray.tune._files import JOURNAL
from eagleray.tune._record import Record
from eagleray.tune.error import JournalError
from eagleray.tune.logger import DefaultLogs
from eagleray.tune.schedulers import FIFOScheduler
from eagleray.tune.search.search_algorithm import SearchAlgorithm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from eagleray.tune._plan import Plan
    from eagleray.tune.experiment.trial import Trial


def run(plan: Plan, resume: _replay.Resume | None = None) -> list[Trial]:
    """Runs an experiment to its end. Returns its trials."""
    if not eagleray.is_initialized():
        eagleray.init()
    _ready(plan)
    kept = _put_aside(plan.folder / JOURNAL) if resume is None and plan.is_named else None
    if plan.is_named or resume is not None:
        plan.folder.mkdir(parents=True, exist_ok=True)
    else:
        plan.folder = _resolve.make_folder(plan.folder)
    path = plan.folder / JOURNAL
    with contextlib.closing(native.Journal(str(path))) as journal:
        trials: list[Trial] = []
        if resume is None:
            experiment_id = secrets.token_hex(3)[:5]
            _write_head(plan, journal, experiment_id)
        else:
            # Read now that nobody else writes it: another program may have gone on since it was looked at.
            resume = dataclasses.replace(resume, events=list(journal.events()))
            experiment_id = resume.experiment_id
        record = Record(plan, journal, DefaultLogs(plan), _view(plan), experiment_id)
        if resume is not None:
            trials += _replay.replay(plan, record, resume)
            for trial in trials:
                record.view.on_past(trial)
            record.flush()
        if kept is not None:
            record.warn(
                f"{plan.folder} held an experiment already. Its trials stay beside those of this one, and its journal is kept as "
                f"{kept.name}. To go on with an experiment instead: Tuner.restore(folder, trainable) or tune.run(..., resume='AUTO')."
            )
        _warn_of_limit(plan, record)
        engine = Engine(plan, record, trials)
        with _storage.marked(plan.folder) as record.mark, _interrupts(engine):
            engine.run()
    return trials


def _put_aside(path: Path) -> Path | None:
    """Make room for a new journal. One with results is kept under another name, which is returned; one without any is removed."""
    if not path.exists():
        return None
    # Another program that has just begun, or goes on, holds its lock.
    with contextlib.closing(native.Journal(str(path))):
        if not _has_results(path):
            path.unlink()
            return None
        when = dt.datetime.fromtimestamp(path.stat().st_mtime, tz=dt.UTC).astimezone()
        name = f"{path.stem}-{when:%Y-%m-%d_%H-%M-%S}"
        for number in itertools.count(1):
            kept = path.with_name(f"{name}{'' if number == 1 else f'-{number}'}{path.suffix}")
            if not kept.exists():
                path.rename(kept)
                return kept
    raise AssertionError("there is always another number")


def _has_results(path: Path) -> bool:
    try:
        return any(kind in ("result", "checkpoint") for kind, *_ in native.read_journal(str(path)))
    except (OSError, JournalError):
        return True


def look(plan: Plan, resume: _replay.Resume) -> list[Trial]:
    """The trials of an earlier run as they were left, without going on."""
    # The user's own are for going on: whoever is told the past twice proposes something else.
    plan.search_alg, plan.scheduler = _Unasked(), FIFOScheduler()
    record = Record(plan, _Unwritten(), None, SilentView(), resume.experiment_id)
    return _replay.replay(plan, record, dataclasses.replace(resume, is_look=True))


class _Unasked(SearchAlgorithm):
    """What proposes nothing more."""

    def retrace(self, trial_id: str, trace: Any) -> None:
        """Its answer is known."""


class _Unwritten:
    """A journal that nobody writes to."""

    def append(self, *_: Any) -> None:
        """It is only looked at."""


def _view(plan: Plan) -> View:
    total = plan.search_alg.total_samples

    def resources() -> str:
        total, free = eagleray.cluster_resources(), eagleray.available_resources()
        names = [name for name in ("CPU", "GPU") if total.get(name)]
        return ", ".join(f"{total[name] - free.get(name, 0.0):g}/{total[name]:g} {name}" for name in names)

    return make_view(
        plan.name,
        progress_reporter=plan.reporter,
        verbose=plan.verbose,
        metric=plan.metric,
        mode=plan.mode,
        total_samples=total if total > 0 else None,
        folder=str(plan.folder),
        resources=resources,
    )


def _ready(plan: Plan) -> None:
    """Tells the brains what they are to optimise."""
    if plan.scheduler is None:
        plan.scheduler = FIFOScheduler()
    elif not plan.scheduler.set_search_properties(plan.metric, plan.mode):
        raise ValueError(
            "You passed a `metric` or `mode` argument to `tune.TuneConfig()`, but the scheduler you are using was already "
            "instantiated with their own `metric` and `mode` parameters. Either remove the arguments from your scheduler or "
            "from `tune.TuneConfig()`"
        )
    search = plan.search_alg
    if not search.set_search_properties(plan.metric, plan.mode, plan.param_space):
        raise ValueError(
            "You passed a `metric` or `mode` argument to `tune.TuneConfig()`, but the search algorithm you are using was already "
            "instantiated with their own `metric` and `mode` parameters. Either remove the arguments from your search algorithm or "
            "from `tune.TuneConfig()`"
        )
    search.set_space(plan.param_space, num_samples=plan.num_samples)


def _warn_of_limit(plan: Plan, record: Record) -> None:
    """Some schedulers need their trials together."""
    needs = getattr(plan.scheduler, "needs_together", None)
    together = plan.max_concurrent or getattr(plan.search_alg, "max_concurrent", 0)
    if needs is None or not together:
        return
    total = plan.search_alg.total_samples
    text = needs(total if total > 0 else None, together)
    if text is not None:
        record.warn(text)


def _write_head(plan: Plan, journal: Any, experiment_id: str) -> None:
    fields = {
        "id": experiment_id,
        "name": plan.name,
        "trainable": plan.trainable_name,
        "is_class": plan.is_class,
        "metric": plan.metric,
        "mode": plan.mode,
        "num_samples": plan.num_samples,
        "seed": getattr(plan.search_alg, "seed", None),
    }
    journal.append("experiment", fields)
    journal.flush()
    if plan.spec is not None:
        temporary = plan.folder / "tuner.pkl.part"
        temporary.write_bytes(plan.spec)
        os.replace(temporary, plan.folder / "tuner.pkl")


@contextlib.contextmanager
def _interrupts(engine: Engine) -> Iterator[None]:
    """The first Ctrl-C stops the experiment where it is; the second one is Python's own."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return

    def on_interrupt(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        where = engine.plan.folder
        sys.stderr.write(
            f"\nstopping: trials go on where they were by Tuner.restore({str(where)!r}, trainable). Once more: now.\n"
        )
        engine.interrupt()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
