"""A trial's files where the experiment's folder is on another machine: a folder here, and what is sent of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from eagleray import _native
from eagleray.tune._pieces import Unpacking, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagleray.tune._pieces import Piece
    from eagleray.tune._session import TrialSpec

#: A piece has no more bytes.
PIECE_BYTES = 8 << 20
#: A trial that may be ahead has several pieces under way, each at least this large.
_PIECE_BYTES_MIN = 1 << 20
#: Where the checkpoint lies that the trial goes on from.
_RECEIVED = ".received"


class Parcel(NamedTuple):
    """A checkpoint of a class that waits to be fetched."""

    #: Where it belongs.
    target: str
    ticket: int


class Away:
    """The folder of one trial in its process."""

    def __init__(self, spec: TrialSpec) -> None:
        self.spec = spec
        self._home = spec.path or ""
        base = os.path.join(str(_native.identity()["session_dir"]), "tune")
        _tidy(base)
        #: No two processes have the same.
        self.folder = os.path.join(base, str(os.getpid()), os.path.basename(self._home) or spec.trial_id)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self._received: Unpacking | None = None
        self._offered: dict[int, tuple[str, Iterator[Piece]]] = {}
        self._tickets = 0
        self._left: Iterator[Piece] | None = None
        self._kept: list[str] = []
        #: Whether the trial has begun: another run of it gets a folder of its own.
        self.is_used = False

    def place(self, spec: TrialSpec) -> TrialSpec:
        """Say what the trial is told, with names of this machine."""
        self.is_used = True
        received, self._received = self._received, None
        checkpoint = None
        if received is not None:
            received.close()
            checkpoint = os.path.join(self.folder, _RECEIVED)
        return dataclasses.replace(spec, path=None if spec.path is None else self.folder, checkpoint=checkpoint)

    def receive(self, piece: Piece) -> None:
        """Write the next piece of the checkpoint to go on from."""
        if self._received is None:
            self._received = Unpacking(os.path.join(self.folder, _RECEIVED))
        self._received.take(piece)

    def home_of(self, folder: str) -> str:
        """Say where a folder of the trial belongs."""
        return os.path.join(self._home, os.path.basename(folder))

    def here_of(self, path: str) -> str:
        """Say where a folder is written that belongs there."""
        self._tickets += 1
        return os.path.join(self.folder, f".sent-{self._tickets}", os.path.basename(path))

    def pieces(self, folder: str) -> Iterator[Piece]:
        """Give a folder's content."""
        return pack(folder, max(PIECE_BYTES // self.spec.ahead, _PIECE_BYTES_MIN))

    def keep_only(self, folder: str) -> None:
        """Remove the checkpoint that was sent before this one."""
        for old in self._kept:
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        self._kept = [folder]

    def offer(self, target: str, folder: str) -> Parcel:
        """Keep a checkpoint that is whole until it is fetched."""
        self._offered[self._tickets] = (folder, self.pieces(folder))
        return Parcel(target, self._tickets)

    def next_piece(self, ticket: int) -> Piece | None:
        """Give the next piece of a checkpoint; it is gone with the last."""
        # Taken out while it is read: half of one that cannot be read is not to be taken for all of it.
        folder, pieces = self._offered.pop(ticket)
        piece = next(pieces, None)
        if piece is None:
            shutil.rmtree(os.path.dirname(folder), ignore_errors=True)
        else:
            self._offered[ticket] = (folder, pieces)
        return piece

    def next_left(self) -> Piece | None:
        """Give the next piece of what the trial has left beside its checkpoints; its folder is gone with the last."""
        if self._left is None:
            with contextlib.suppress(OSError):
                names = os.listdir(self.folder)
                own = [name for name in names if name.startswith((".sent-", _RECEIVED, "checkpoint_"))]
                if len(names) > len(own):
                    self._left = pack(self.folder, PIECE_BYTES, skipped=own, appended=self.spec.log_to_file or ())
        piece = None if self._left is None else next(self._left, None)
        if piece is None:
            self._leave()
        return piece

    def _leave(self) -> None:
        with contextlib.suppress(OSError):
            if os.path.realpath(os.getcwd()).startswith(os.path.realpath(self.folder)):
                # Nobody can work in a folder that is gone.
                os.chdir(os.environ.get("TUNE_ORIG_WORKING_DIR", "/"))
        shutil.rmtree(self.folder, ignore_errors=True)


def _tidy(base: str) -> None:
    """Remove what processes left that were killed."""
    with contextlib.suppress(OSError):
        for pid in os.listdir(base):
            if not os.path.exists(f"/proc/{pid}"):
                shutil.rmtree(os.path.join(base, pid), ignore_errors=True)
