"""The process that trials run in, one after the other."""

from __future__ import annotations

import inspect
import os
import shutil
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray import _native, util
from eagleray.tune import _session, _storage
from eagleray.tune._away import Away, Parcel
from eagleray.tune.trainable.util import call_trainable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagleray.tune._pieces import Piece
    from eagleray.tune._session import TrialSpec
    from eagleray.tune.trainable.trainable import Trainable


def _about() -> dict[str, Any]:
    return {"pid": os.getpid(), "hostname": socket.gethostname(), "node_ip": util.get_node_ip_address()}


class _Output:
    """Sends what a trial prints to files in its folder, if it was asked to."""

    def __init__(self, spec: TrialSpec) -> None:
        self._files: list[Any] = []
        self._before = (sys.stdout, sys.stderr)
        if spec.log_to_file is not None and spec.path is not None:
            self._files = [open(os.path.join(spec.path, name), "a", buffering=1) for name in spec.log_to_file]  # noqa: SIM115
            sys.stdout, sys.stderr = self._files

    def close(self) -> None:
        sys.stdout, sys.stderr = self._before
        for file in self._files:
            file.close()


def _enter(spec: TrialSpec) -> None:
    if spec.path is None:
        return
    os.environ.setdefault("TUNE_ORIG_WORKING_DIR", os.getcwd())
    os.makedirs(spec.path, exist_ok=True)
    if spec.chdir:
        os.chdir(spec.path)


def _failure(error: BaseException) -> tuple[str, Any, str]:
    """What went wrong, in a form that reaches the driver whatever it was."""
    text = "".join(traceback.format_exception(error))
    try:
        eagleray.cloudpickle.loads(eagleray.cloudpickle.dumps(error))
    except BaseException:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return ("error", error, text)


class TrialProcess:
    """Runs functions, or holds one instance of a class and steps it. An actor; the engine talks to it."""

    def __init__(self, trainable: Any) -> None:
        self._trainable = trainable
        self._instance: Trainable | None = None
        self._output: _Output | None = None
        #: Where the experiment's folder is on another machine.
        self._away: Away | None = None

    # What travels.

    def expect(self, spec: TrialSpec) -> tuple[str, Any, Any]:
        """Says whether the checkpoint that a trial is to go on from has to be sent."""
        try:
            self._away = None if _storage.is_seen(spec.mark) else Away(spec)
        except BaseException as error:
            return _failure(error)
        return ("received", self._away is not None, None)

    def receive(self, piece: Piece) -> tuple[str, Any, Any]:
        """Takes a piece of that checkpoint."""
        try:
            assert self._away is not None
            self._away.receive(piece)
        except BaseException as error:
            return _failure(error)
        return ("received", True, None)

    def piece(self, ticket: int) -> tuple[str, Piece | None, Any]:
        """The next piece of a checkpoint that was saved here; None if there is no more."""
        try:
            assert self._away is not None
            return ("piece", self._away.next_piece(ticket), None)
        except BaseException as error:
            return _failure(error)

    def left(self) -> Piece | None:
        """The next piece of what a trial has left in its folder here; None if there is no more, and the folder is gone."""
        if self._away is None:
            return None
        piece = self._away.next_left()
        if piece is None:
            self._away = None
        return piece

    def _place(self, spec: TrialSpec) -> TrialSpec:
        """The trial's folder and checkpoint as they are called here."""
        if _storage.is_seen(spec.mark):
            self._away = None
            return spec
        if self._away is None or self._away.is_used:
            self._away = Away(spec)
        return self._away.place(spec)

    # Functions.

    def run(self, spec: TrialSpec) -> Iterator[Any]:
        """Runs a function trainable. Its results go out as they are reported; what it came to is yielded last."""
        emitter = _native.emitter()
        spec = self._place(spec)
        emitter.send(("begin", _about(), self._away is not None))
        _enter(spec)
        session = _session.Session(
            spec,
            emitter,
            iteration=spec.iteration,
            checkpoint_next=spec.checkpoint_next,
            time_total=spec.time_total,
            _timesteps_total=spec.timesteps_total,
            _episodes_total=spec.episodes_total,
            away=self._away,
        )
        output = _Output(spec)
        try:
            with _session.running(session):
                said = call_trainable(self._trainable, spec.config)
                if inspect.isgenerator(said):
                    for metrics in said:
                        session.report(metrics if isinstance(metrics, dict) else {"_metric": metrics})
                elif isinstance(said, dict):
                    session.report(said)
                elif isinstance(said, int | float) and not isinstance(said, bool):
                    session.report({"_metric": said})
            outcome: tuple[str, Any, Any] = ("end", None, None)
        except _session.StopTrial:
            outcome = ("stopped", None, None)
        except SystemExit as error:
            outcome = ("end", None, None) if not error.code else _failure(error)
        except BaseException as error:
            outcome = _failure(error)
        finally:
            output.close()
        yield outcome

    # Classes.

    def build(self, spec: TrialSpec, *, reset: bool) -> tuple[str, Any, Any]:
        """Makes the instance, or gives the one that is there another configuration; then restores it."""
        try:
            spec = self._place(spec)
            _enter(spec)
            config = dict(spec.config)
            if self._instance is not None and (not reset or not self._instance.reset(config)):
                self._drop()
                if reset:
                    return ("cannot reset", None, None)
            if self._instance is None:
                config |= {"__trial_id__": spec.trial_id, "__trial_name__": spec.trial_name, "__trial_dir__": spec.path}
                self._instance = self._trainable(config)
            instance = self._instance
            instance.trial_id, instance.trial_name, instance._logdir = spec.trial_id, spec.trial_name, spec.path
            self._close_output()
            self._output = _Output(spec)
            if spec.checkpoint is not None:
                instance.restore(spec.checkpoint)
        except BaseException as error:
            return _failure(error)
        return ("begin", _about(), self._away is not None)

    def step(self, checkpoint: str, *, is_due: bool) -> tuple[str, Any, Any]:
        """Does one iteration, and saves it where that is wanted."""
        try:
            assert self._instance is not None
            result = self._instance.train()
            kept = self._save(checkpoint) if is_due or result.get("should_checkpoint") else None
            if kept is not None:
                result["checkpoint_dir_name"] = os.path.basename(checkpoint)
        except BaseException as error:
            return _failure(error)
        return ("result", result, kept)

    def save(self, path: str) -> tuple[str, Any, Any]:
        """Saves the instance."""
        try:
            return ("saved", None, self._save(path))
        except BaseException as error:
            return _failure(error)

    def _save(self, path: str) -> str | Parcel:
        if self._away is None:
            return self._save_here(path)
        return self._away.offer(path, self._save_here(self._away.here_of(path)))

    def _save_here(self, path: str) -> str:
        assert self._instance is not None
        # What lies there is of a run that was cut short before it was counted.
        temporary = f"{path}.part"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            self._instance.save(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        shutil.rmtree(path, ignore_errors=True)
        os.rename(temporary, path)
        return path

    def end(self) -> None:
        """The trial is over; the instance may be reset for another one."""
        self._close_output()

    def _close_output(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            output.close()

    def drop(self) -> None:
        """The instance is not needed any more."""
        self._drop()
        self._close_output()

    def _drop(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.stop()
