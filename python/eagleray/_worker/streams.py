"""A worker's standard output and error.

Both go to files that the node reads, by way of `_native.Output`: crates/python/src/output.rs.
"""

from __future__ import annotations

import io
import os
import sys

from eagleray import _native

_OUTPUTS: list[_native.Output] = []


class _Raw(io.RawIOBase):
    """What lies below a text stream: native, but for what Python asks of every stream."""

    def __init__(self, output: _native.Output, number: int) -> None:
        super().__init__()
        self._number = number
        self.write = output.write  # type: ignore[method-assign]
        self.flush = output.flush  # type: ignore[method-assign]

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number


def redirect(folder: str, stem: str) -> None:
    """Send standard output and error to files of this worker's own."""
    import fcntl

    for number, ending in ((1, "out"), (2, "err")):
        path = os.path.join(folder, f"{stem}.{ending}")
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(log, number)
        # Kept where no user's code looks, for the day that it closes the other one.
        spare = fcntl.fcntl(log, fcntl.F_DUPFD_CLOEXEC, min(200, os.sysconf("SC_OPEN_MAX") // 2))
        _OUTPUTS.append(_native.Output(number, spare))
        os.close(log)
    _open()


def _open() -> None:
    # `write_through`: what is printed reaches `_Raw` at once, as with `python -u`.
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_Raw(output, number), encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        for number, output in zip((1, 2), _OUTPUTS, strict=True)
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
        for output in _OUTPUTS:
            output.mend()
        _open()
