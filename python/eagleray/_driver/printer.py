"""Prints on the driver's terminal what workers print, and what the node has to say."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from eagleray import _native
from eagleray._driver import notices

#: At the end the node is waited for so long. Whoever takes this program's output is waited for as long as it takes, as by any program.
_NODE_PATIENCE_S = 30.0
#: How often a program that was told to hurry looks whether somebody takes its output.
_STEP_S = 0.1


class Printer:
    """A thread that waits for lines and writes them to this process's own streams, so that notebooks show them too."""

    def __init__(self, session_dir: str) -> None:
        """Make it, for the node of this session; `start` runs it."""
        self._session_dir = session_dir
        #: Where lines come from whose node is the driver's own. Not looked up before there is one.
        self._here: str | None = None
        self._thread = threading.Thread(target=self._run, name="eagleray-printer", daemon=True)
        self._is_stopping = False
        self._drained = threading.Event()
        #: Events that have come, and whether one is being printed.
        self._count = 0
        self._is_printing = False
        self._is_hurried = False
        self._dedup: Any = None

    def start(self) -> None:
        """Begin to print."""
        self._thread.start()

    def drain(self) -> None:
        """Print what has been said so far: late output at the end of a program is not lost."""
        if threading.current_thread() is self._thread:
            return
        self._drained.clear()
        try:
            _native.last_words()
        except Exception:
            return  # the node is gone
        count, silent_since = -1, time.monotonic()
        while self._thread.is_alive() and not self._drained.wait(_STEP_S):
            if self._is_hurried and self._is_printing:
                self._leave_out()
                return
            if self._count != count or self._is_printing:
                count, silent_since = self._count, time.monotonic()
            elif time.monotonic() - silent_since > _NODE_PATIENCE_S:
                self._write_text(sys.stderr, "eagleray: the node does not say what workers printed last\n")
                return

    def hurry(self) -> None:
        """Do not wait in `drain` for who reads the output: the user does not want the rest. What is read at once is still printed."""
        self._is_hurried = True

    def _leave_out(self) -> None:
        self._is_stopping = True
        import os
        import select

        # Not by way of `sys.stderr`: it may have stopped too.
        if select.select([], [2], [], 0)[1]:
            os.write(2, b"eagleray: the rest of what workers printed is left out: nobody took this program's output\n")

    def stop(self) -> None:
        """End the thread."""
        self._is_stopping = True
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)
        if self._dedup is not None and not self._is_printing:
            self._write(self._dedup.flush())

    def _run(self) -> None:
        while not self._is_stopping:
            event = _native.next_log(0.05 if self._has_pending() else 0.5)
            if event is None:
                if not _native.is_joined():
                    self._drained.set()
                    return
                if self._dedup is not None:
                    self._write(self._dedup.poll(time.monotonic()))
            else:
                self._count += 1
                self._is_printing = True
                self._on_event(event)
                self._is_printing = False

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

    def _on_lines(self, name: str, pid: int, is_error: bool, lines: list[str], node: str) -> None:  # noqa: FBT001
        from eagleray._driver.log_dedup import LogDedup, Source

        for subscriber in notices.LINE_SUBSCRIBERS[:]:
            subscriber(name, pid, is_error, lines)
        if self._dedup is None:
            import os

            self._dedup = LogDedup.from_environ(os.environ)
        source, now = Source(name, pid, node or self._own_node()), time.monotonic()
        self._write([printed for line in lines for printed in self._dedup.feed(now, source, line, is_error=is_error)])

    def _own_node(self) -> str:
        if self._here is None:
            from eagleray._node import facts

            self._here = f"ip={facts.ip_of(self._session_dir)}"
        return self._here

    def _on_notice(self, kind: str, text: str) -> None:
        notices.publish(kind, text)
        self._write_text(sys.stderr, text + "\n")

    def _write(self, printed: Any) -> None:
        texts: list[str] = []
        is_error = False
        for one in printed:
            if one.is_error != is_error and texts:
                self._write_lines(texts, is_error=is_error)
                texts = []
            is_error = one.is_error
            texts.append(one.text)
        if texts:
            self._write_lines(texts, is_error=is_error)

    def _write_lines(self, texts: list[str], *, is_error: bool) -> None:
        self._write_text(sys.stderr if is_error else sys.stdout, "\n".join(texts) + "\n")

    def _write_text(self, stream: Any, text: str) -> None:
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                # A terminal that cannot show all of it shows what it can, and the rest by number.
                encoding = getattr(stream, "encoding", None) or "ascii"
                stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except (OSError, ValueError, AttributeError):
            # A closed terminal must not end the program.
            return
