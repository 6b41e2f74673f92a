"""A worker's standard output and error.

Both go to files that the node reads. Among what is printed stand marks that say whose output follows: by the time the node reads a line
the worker may run something else.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from eagleray import _native

#: The node takes what stands between these two for a name: crates/node/src/logs.rs.
_SPEAKER = (b"\x1e", b"\x1f")

_LOGS: list[int] = []


#: Without a line's end this much is held back.
_HELD_BYTES_MAX = 8192


class _Marked(io.RawIOBase):
    """Writes whole lines to a descriptor, with a mark wherever another function begins to speak."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._speaker = ""
        self._held = b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any) -> int:
        held = self._held = self._held + bytes(data)
        if held.endswith(b"\n") or len(held) > _HELD_BYTES_MAX:
            self.flush()
        else:
            _native.note_unflushed()
        return len(data)

    def flush(self) -> None:
        data, self._held = self._held, b""
        if not data:
            return
        try:
            speaker = _native.current_label()
        except Exception:
            speaker = self._speaker  # not joined yet, or a user's fork
        if speaker != self._speaker:
            self._speaker = speaker
            data = b"".join((_SPEAKER[0], speaker.encode(), _SPEAKER[1], data))
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._number, rest) :]
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                # A task has closed the descriptor below us. That is no reason for others to be silent.
                os.dup2(_LOGS[self._number - 1], self._number)


def redirect(folder: str, stem: str) -> None:
    """Send standard output and error to files of this worker's own."""
    import fcntl

    for number, ending in ((1, "out"), (2, "err")):
        path = os.path.join(folder, f"{stem}.{ending}")
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(log, number)
        # Kept where no user's code looks, for the day that it closes the other one.
        _LOGS.append(fcntl.fcntl(log, fcntl.F_DUPFD_CLOEXEC, min(200, os.sysconf("SC_OPEN_MAX") // 2)))
        os.close(log)
    _open()


def _open() -> None:
    # `write_through`: what is printed reaches `_Marked` at once, as with `python -u`.
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_Marked(number), encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        for number in (1, 2)
    )


def flush() -> None:
    """Write out what was printed without a line's end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


def flush_or_mend() -> None:
    """Write out what was printed. Streams that a task has closed are opened again for the next one."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        for number, log in zip((1, 2), _LOGS, strict=False):
            os.dup2(log, number)
        _open()
