"""Where lines go: a terminal that is drawn over, a log that only grows, a notebook's cell."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from eagleray.tune._console import text
from eagleray.tune._console.table import ASCII, UNICODE, Glyphs, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Of a log or a pipe, whose reader's width is not known.
LOG_WIDTH = 120

#: How long an unfinished line is waited for before the view is drawn below it.
UNFINISHED_S = 1.0

_COLOURS = {
    "RUNNING": "36",
    "TERMINATED": "32",
    "ERROR": "31",
    "PAUSED": "33",
    "PENDING": "2",
    "dim": "2",
    "bold": "1",
    "good": "32",
}


class Screen:
    """A place for lines."""

    #: Whether `draw` replaces what it drew before.
    is_live = False
    glyphs: Glyphs = UNICODE

    def size(self) -> tuple[int, int | None]:
        """Give columns, and rows if there are only so many."""
        return LOG_WIDTH, None

    def draw(self, lines: Sequence[Line]) -> None:
        """Show a whole view."""
        raise NotImplementedError

    def say(self, lines: Sequence[str]) -> None:
        """Show lines that stay."""
        raise NotImplementedError

    def finish(self, lines: Sequence[Line]) -> None:
        """Show the last view, which stays."""
        self.draw(lines)

    def open(self) -> None:
        """Begin."""

    def close(self) -> None:
        """End; what was drawn last stays."""


class Log(Screen):
    """A stream that only grows: a file, a pipe, a terminal that knows no cursor. No escape sequence goes there."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._environ = environ
        self.glyphs = glyphs_for(stream)

    def size(self) -> tuple[int, int | None]:
        """Give the width that the environment names, or a common one."""
        with contextlib.suppress(ValueError):
            columns = int(self._environ.get("COLUMNS", ""))
            if columns > 0:
                return columns, None
        return LOG_WIDTH, None

    def draw(self, lines: Sequence[Line]) -> None:
        """Append a block."""
        self.say([*(line.text for line in lines), ""])

    def say(self, lines: Sequence[str]) -> None:
        """Append lines."""
        write_all(self._stream, "".join(f"{line}\n" for line in lines))


class Terminal(Screen):
    """A terminal's last lines, drawn over in place. What others print meanwhile goes above them.

    The cursor rests at the start of the line below the view, so that whatever is printed past us, or the `^C` of an
    impatient user, lands there and is wiped by the next drawing.
    """

    is_live = True

    def __init__(
        self, stream: TextIO, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._has_colour = not environ.get("NO_COLOR")
        self.glyphs = glyphs_for(stream)
        self._lock = threading.RLock()
        self._drawn: list[Line] = []
        #: What is on the screen now; nothing after somebody else has begun a line.
        self._on_screen: list[Line] = []
        self._at_line_start = True
        self._passed_on_at = 0.0
        self._guards: list[Guard] = []

    def size(self) -> tuple[int, int | None]:
        """Ask the terminal: its user may have resized it."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            return 80, 24
        return size.columns or 80, size.lines or 24

    def open(self) -> None:
        """Let what the program prints pass through us."""
        self._guards = [guard for name in ("stdout", "stderr") if (guard := Guard.install(name, self)) is not None]

    def close(self) -> None:
        """Leave the last drawing where it is, the cursor below it, and the program's streams as they were."""
        for guard in self._guards:
            guard.remove()
        self._guards = []
        with self._lock:
            self._drawn = []
            self._on_screen = []

    def draw(self, lines: Sequence[Line]) -> None:
        """Draw over what was drawn. A line that somebody has just begun is not broken: `print` writes its end apart."""
        with self._lock:
            self._drawn = list(lines)
            if not self._at_line_start and self._clock() - self._passed_on_at < UNFINISHED_S:
                return
            if self._on_screen != self._drawn:
                self._write(self._erase() + self._painted())

    def finish(self, lines: Sequence[Line]) -> None:
        """Replace what was drawn by lines that stay; they may scroll."""
        with self._lock:
            self._write(self._erase() + "".join(f"{self._paint(line)}\n" for line in lines))
            self._drawn = []

    def say(self, lines: Sequence[str]) -> None:
        """Print lines above the view."""
        with self._lock:
            said = "".join(f"{line}\n" for line in lines)
            self._write(self._erase() + said + self._painted())

    def pass_on(self, stream: TextIO, words: str) -> None:
        """Print what somebody else prints, above the view; it comes back with the end of the line."""
        with self._lock:
            erased = self._erase() if self._on_screen else ""
            # Noted first: Ctrl-C may strike as soon as it is written.
            self._at_line_start = words.endswith("\n")
            self._passed_on_at = self._clock()
            self._write(erased)
            write_all(stream, words)
            if self._at_line_start:
                self._write(self._painted())

    def _write(self, words: str) -> None:
        if words:
            write_all(self._stream, words)

    def _erase(self) -> str:
        if not self._on_screen:
            start = "" if self._at_line_start else "\n"
            self._at_line_start = True
            self._on_screen = []
            return start
        columns, _ = self.size()
        # A terminal that was made narrower has wrapped what was drawn for a wider one.
        rows = sum(max(1, -(-text.width(line.text) // columns)) for line in self._on_screen)
        self._on_screen = []
        return f"\x1b[{rows}A\r\x1b[J"

    def _painted(self) -> str:
        _, rows = self.size()
        # What has scrolled out of the terminal cannot be drawn over.
        shown = self._drawn[: max((rows or 24) - 1, 1)]
        self._on_screen = shown
        return "".join(f"{self._paint(line)}\n" for line in shown)

    def _paint(self, line: Line) -> str:
        return paint(line) if self._has_colour else line.text


class Guard:
    """Stands in for the program's own stdout or stderr while a view is on the terminal."""

    def __init__(self, name: str, stream: Any, screen: Terminal) -> None:
        self._name = name
        self._stream = stream
        self._screen = screen
        self._handlers: list[logging.StreamHandler[Any]] = []
        self._pid = os.getpid()

    @classmethod
    def install(cls, name: str, screen: Terminal) -> Guard | None:
        """Take the place of `sys.<name>` if that is a terminal."""
        stream = getattr(sys, name)
        if isinstance(stream, Guard) or not is_terminal(stream):
            return None
        guard = cls(name, stream, screen)
        for handler in _handlers_on(stream):
            handler.setStream(guard)
            guard._handlers.append(handler)
        setattr(sys, name, guard)
        return guard

    def remove(self) -> None:
        """Give the place back, unless somebody else has taken it meanwhile."""
        for handler in self._handlers:
            if handler.stream is self:
                handler.setStream(self._stream)
        if getattr(sys, self._name) is self:
            setattr(sys, self._name, self._stream)

    def write(self, words: str) -> int:
        """Print above the view."""
        if os.getpid() != self._pid:
            # A fork of this program knows nothing of the view, and its lock may be held for ever there.
            return int(self._stream.write(words))
        if words:
            self._screen.pass_on(self._stream, words)
        return len(words)

    def writelines(self, lines: Sequence[str]) -> None:
        """Print above the view."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Notebook(Screen):
    """A notebook's cell: one output that is replaced."""

    is_live = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._handle: Any = None

    def draw(self, lines: Sequence[Line]) -> None:
        """Replace what was drawn."""
        page = Page(lines)
        if self._handle is None:
            from IPython.display import display

            self._handle = display(page, display_id=True)
        else:
            self._handle.update(page)

    def say(self, lines: Sequence[str]) -> None:
        """Print below it."""
        write_all(self._stream, "".join(f"{line}\n" for line in lines))


class Page:
    """Lines as a notebook shows them: HTML where there is any, text elsewhere."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = tuple(lines)

    def __repr__(self) -> str:
        return "\n".join(line.text for line in self._lines)

    def _repr_html_(self) -> str:
        body = "\n".join(html_of(line) for line in self._lines)
        return f'<pre style="line-height: 1.3; white-space: pre; overflow-x: auto">{body}</pre>'


_HTML_COLOURS = {
    "RUNNING": "color: #0891b2",
    "TERMINATED": "color: #15803d",
    "ERROR": "color: #b91c1c",
    "PAUSED": "color: #a16207",
    "PENDING": "opacity: 0.6",
    "dim": "opacity: 0.6",
    "bold": "font-weight: bold",
    "good": "color: #15803d",
}


def html_of(line: Line) -> str:
    """Give a line as HTML."""
    import html

    return _wrapped(line, lambda words, kind: f'<span style="{_HTML_COLOURS[kind]}">{words}</span>', html.escape)


def paint(line: Line) -> str:
    """Give a line with its colours."""
    return _wrapped(line, lambda words, kind: f"\x1b[{_COLOURS[kind]}m{words}\x1b[0m", lambda words: words)


def _wrapped(line: Line, wrap: Any, escape: Any) -> str:
    parts = []
    at = 0
    for start, end, kind in line.marks:
        if kind not in _COLOURS or start >= len(line.text):
            continue
        parts.append(escape(line.text[at:start]))
        parts.append(wrap(escape(line.text[start:end]), kind))
        at = min(end, len(line.text))
    parts.append(escape(line.text[at:]))
    return "".join(parts)


def choose(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> Screen:
    """Give the place that suits where the program runs."""
    if stream is None:
        stream = sys.stdout
        if in_notebook():
            return Notebook(stream)
    if is_terminal(stream) and environ.get("TERM", "dumb") not in ("dumb", "unknown", ""):
        return Terminal(stream, environ)
    return Log(stream, environ)


def in_notebook() -> bool:
    """Whether the program runs in a notebook's kernel. IPython is asked only if it is there already."""
    shell = sys.modules.get("IPython")
    get_shell = getattr(shell, "get_ipython", None)
    running = get_shell() if get_shell is not None else None
    return running is not None and "IPKernelApp" in getattr(running, "config", {})


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        # Closed, or something that only looks like a stream.
        return False


def glyphs_for(stream: Any) -> Glyphs:
    """Give the characters that a stream can carry. One without an encoding keeps text as it is."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        (UNICODE.rule + UNICODE.ellipsis).encode(encoding)
    except (UnicodeError, LookupError):
        return ASCII
    return UNICODE


def write_all(stream: Any, words: str) -> None:
    """Write and flush. A closed terminal, or a reader that has gone, does not end an experiment."""
    try:
        try:
            stream.write(words)
        except UnicodeEncodeError:
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(words.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except (OSError, ValueError, AttributeError):
        return


def _handlers_on(stream: Any) -> Iterator[logging.StreamHandler[Any]]:
    """Find the handlers that would write to a stream past whoever takes its place."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    seen: set[int] = set()
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is stream and id(handler) not in seen:
                seen.add(id(handler))
                yield handler
