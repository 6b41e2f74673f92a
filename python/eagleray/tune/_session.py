"""What a trial's own code says and asks: `report`, `get_checkpoint`, `get_context`."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagleray.tune.trainable.trainable import count_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagleray._native import Emitter
    from eagleray.tune._away import Away
    from eagleray.tune._checkpoint import Checkpoint


class StopTrial(BaseException):
    """Ends a trial's function from within `report`: the experiment wants nothing more of it.

    Not an `Exception`: no handler of the user's is meant to catch it.
    """


@dataclass(frozen=True)
class TrialSpec:
    """What a trial's process is told when it starts, or starts again."""

    trial_id: str
    trial_name: str
    experiment_name: str
    number: int
    config: dict[str, Any]
    #: Its folder.
    path: str | None
    resources: Any = None
    #: The checkpoint to go on from.
    checkpoint: str | None = None
    #: What was counted up to that checkpoint.
    iteration: int = 0
    time_total: float = 0.0
    timesteps_total: int | None = None
    episodes_total: int | None = None
    #: The number that the next checkpoint gets.
    checkpoint_next: int = 0
    chdir: bool = True
    log_to_file: tuple[str, str] | None = None
    #: Who sees this file writes into the experiment's folder; others send what belongs there.
    mark: str | None = None
    #: How many results it may be ahead of what was decided.
    ahead: int = 1


@dataclass
class Session:
    """One run of a function trainable."""

    spec: TrialSpec
    emitter: Emitter
    iteration: int = 0
    checkpoint_next: int = 0
    time_total: float = 0.0
    _timesteps_total: int | None = None
    _episodes_total: int | None = None
    start: float = field(default_factory=time.time)
    last: float = field(default_factory=time.time)
    checkpoint: Checkpoint | None = None
    #: The folder of `tune.checkpoint_dir` that goes with the next report.
    folder: str | None = None
    is_stopped: bool = False
    #: Set where the experiment's folder is on another machine; `spec` then names a folder of this one.
    away: Away | None = None

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None = None) -> None:
        """Send one result, and wait until the experiment has decided."""
        if self.is_stopped:
            raise StopTrial
        now = time.time()
        result = dict(metrics)
        self.iteration += 1
        took = now - self.last
        self.time_total += took
        count_up(self, result)
        result.setdefault("training_iteration", self.iteration)
        result["time_this_iter_s"] = took
        result["time_total_s"] = self.time_total
        result["timestamp"] = int(now)
        result["iterations_since_restore"] = self.iteration - self.spec.iteration
        result["time_since_restore"] = now - self.start
        result.setdefault("done", False)
        kept = self._keep(checkpoint)
        if kept is not None:
            result["checkpoint_dir_name"] = os.path.basename(kept)
        self._send(("result", result, kept))
        self.last = time.time()

    def _send(self, said: tuple[str, Any, Any]) -> None:
        try:
            is_wanted = self.emitter.send(said)
        except KeyboardInterrupt:
            is_wanted = False
        if not is_wanted:
            self.is_stopped = True
            raise StopTrial

    def drop_folder(self) -> None:
        """What was written by `tune.checkpoint_dir` and never reported goes."""
        folder, self.folder = self.folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _keep(self, checkpoint: Checkpoint | None) -> str | None:
        folder, self.folder = self.folder, None
        if checkpoint is None and folder is None:
            return None
        from eagleray.tune._checkpoint import Checkpoint

        if checkpoint is not None and not hasattr(checkpoint, "path"):
            raise TypeError(
                f"`checkpoint` must be a tune.Checkpoint, as Checkpoint.from_directory(folder); got {checkpoint!r}"
            )
        from eagleray.tune._checkpoints import persist

        if self.spec.path is None:
            raise RuntimeError("a checkpoint was reported, but this experiment has no folder to keep it in")
        source = folder if checkpoint is None else str(checkpoint.path)
        kept = persist(str(source), self.spec.path, self.checkpoint_next)
        self.checkpoint_next += 1
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        self.checkpoint = Checkpoint.from_directory(kept)
        return kept if self.away is None else self._send_folder(self.away, kept)

    def _send_folder(self, away: Away, folder: str) -> str:
        """Send a checkpoint ahead of its result. Returns where it is then. Here only the latest one stays, for `get_checkpoint`."""
        target = away.home_of(folder)
        for piece in away.pieces(folder):
            self._send(("piece", piece, target))
        away.keep_only(folder)
        return target


_current: Session | None = None


@contextlib.contextmanager
def running(session: Session) -> Iterator[None]:
    """While this process runs a trial's function."""
    global _current
    _current = session
    try:
        yield
    finally:
        _current = None
        session.drop_folder()


def _session(what: str) -> Session:
    if _current is None:
        raise RuntimeError(
            f"`tune.{what}` works inside of a trial only: pass the function that calls it to `Tuner` or `tune.run`."
        )
    return _current


def is_session_enabled() -> bool:
    """Tell whether a trial's function runs in this process, as libraries ask before they report."""
    return _current is not None


def report(
    metrics: dict[str, Any] | float | None = None, *, checkpoint: Checkpoint | None = None, **kwargs: Any
) -> None:
    """Report the metrics of one iteration: a dictionary, or keyword arguments as older programs do.

    Waits until the experiment has taken them up. If it wants nothing more of the trial, the function ends here.
    """
    if metrics is None:
        metrics = kwargs
    elif not isinstance(metrics, dict):
        # `tune.report(0.3)` of old.
        metrics = {"_metric": metrics, **kwargs}
    else:
        metrics = {**metrics, **kwargs} if kwargs else metrics
    session = _current
    if session is None:
        import warnings

        text = "`tune.report` was called outside of a trial's function: nothing is reported. A class returns its metrics from `step`."
        warnings.warn(text, stacklevel=2)
        return
    session.report(metrics, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """The latest checkpoint of this trial: what it goes on from, or what it reported last."""
    session = _session("get_checkpoint")
    if session.checkpoint is None and session.spec.checkpoint is not None:
        from eagleray.tune._checkpoint import Checkpoint

        session.checkpoint = Checkpoint.from_directory(session.spec.checkpoint)
    return session.checkpoint


class TuneContext:
    """What a trial may ask about itself."""

    def __init__(self, spec: TrialSpec) -> None:
        """Keep what the trial was told."""
        self._spec = spec

    def get_trial_id(self) -> str:
        """The trial's id."""
        return self._spec.trial_id

    def get_trial_name(self) -> str:
        """The trial's name."""
        return self._spec.trial_name

    def get_trial_dir(self) -> str | None:
        """The trial's folder."""
        return self._spec.path

    def get_trial_resources(self) -> Any:
        """What the trial has, as a `PlacementGroupFactory`."""
        return self._spec.resources

    def get_experiment_name(self) -> str:
        """The experiment's name."""
        return self._spec.experiment_name

    def get_storage(self) -> Any:
        """Where files go."""
        return self._spec.path


def get_context() -> TuneContext:
    """The running trial."""
    return TuneContext(_session("get_context").spec)


def get_trial_id() -> str | None:
    """The running trial's id, or None outside of one."""
    return None if _current is None else _current.spec.trial_id


def get_trial_name() -> str | None:
    """The running trial's name, or None outside of one."""
    return None if _current is None else _current.spec.trial_name


def get_trial_dir() -> str | None:
    """The running trial's folder, or None outside of one."""
    return None if _current is None else _current.spec.path


def get_trial_resources() -> Any:
    """What the running trial has, or None outside of one."""
    return None if _current is None else _current.spec.resources


@contextlib.contextmanager
def checkpoint_dir(step: int) -> Iterator[str]:
    """A folder to write a checkpoint into, which goes with the next `report`."""
    session = _session("checkpoint_dir")
    session.drop_folder()
    session.folder = tempfile.mkdtemp(prefix="eagleray-checkpoint-")
    yield session.folder
