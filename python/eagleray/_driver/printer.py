"""Prints on the driver's terminal what workers print, and what the node has to say."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from eagleray import _native
from eagleray._driver import notices

#: Of the only node there is so far.
_IP = "127.0.0.1"


class Printer:
    """A thread that waits for lines and writes them to this process's own streams, so that notebooks show them too."""

    def __init__(self) -> None:
        """Make it; `start` runs it."""
        self._thread = threading.Thread(target=self._run, name="eagleray-printer", daemon=True)
        self._is_stopping = False
        self._drained = threading.Event()
        self._dedup: Any = None

    def start(self) -> None:
        """Begin to print."""
        self._thread.start()

    def drain(self) -> None:
        """Print what has been said so far: late output at the end of a program is not lost."""
        import contextlib

        with contextlib.suppress(Exception):
            self._drained.clear()
            _native.last_words()
            # Not for ever: whoever reads this program's output may have stopped.
            self._drained.wait(5.0)

    def stop(self) -> None:
        """End the thread."""
        self._is_stopping = True
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)
        if self._dedup is not None:
            self._write(self._dedup.flush())

    def _run(self) -> None:
        while not self._is_stopping:
            event = _native.next_log(0.05 if self._has_pending() else 0.5)
            if event is None:
                if not _native.is_joined():
                    return
                if self._dedup is not None:
                    self._write(self._dedup.poll(time.monotonic()))
            else:
                self._on_event(event)

    def _on_event(self, event: tuple[Any, ...]) -> None:
        try:
            if event[0] == "lines":
                self._on_lines(*event[1:])
            elif event[0] == "mark":
                self._drained.set()
            else:
                self._on_notice(*event[1:])
        except Exception as error:
            # A subscriber that raises, or a program without a descriptor left: neither ends the printing.
            self._write_text(sys.stderr, f"eagleray: could not show {event[0]}: {error!r}\n")

    def _has_pending(self) -> bool:
        return self._dedup is not None and self._dedup.deadline() is not None

    def _on_lines(self, name: str, pid: int, is_error: bool, lines: list[str]) -> None:  # noqa: FBT001
        from eagleray._driver.log_dedup import LogDedup, Source

        for subscriber in notices.LINE_SUBSCRIBERS[:]:
            subscriber(name, pid, is_error, lines)
        if self._dedup is None:
            import os

            self._dedup = LogDedup.from_environ(os.environ)
        for line in lines:
            self._write(self._dedup.feed(time.monotonic(), Source(name, pid, _IP), line, is_error=is_error))

    def _on_notice(self, kind: str, text: str) -> None:
        notices.publish(kind, text)
        self._write_text(sys.stderr, text + "\n")

    def _write(self, printed: Any) -> None:
        for one in printed:
            self._write_text(sys.stderr if one.is_error else sys.stdout, one.text + "\n")

    def _write_text(self, stream: Any, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError, AttributeError):
            # A closed terminal must not end the program.
            return
