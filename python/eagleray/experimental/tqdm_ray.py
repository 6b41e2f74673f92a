"""Progress bars of tasks and actors. In a driver it is a bar; in a worker it is a line of its output every second."""

from __future__ import annotations

import builtins
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["safe_print", "tqdm"]

#: How often a bar shows itself, and how wide it is.
_SHOWN_SECONDS = 1.0
_BAR_CHARS = 20


def safe_print(*args: Any, **kwargs: Any) -> None:
    """Print as `print` does; a bar begins a line of its own after it."""
    builtins.print(*args, **kwargs)  # noqa: T201


class tqdm:
    """Counts and shows it. Takes what Ray's `tqdm` takes."""

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        """Begin at zero. `position` means nothing: bars of different processes are lines of their own."""
        del position
        if total is None and iterable is not None and hasattr(iterable, "__len__"):
            total = len(iterable)  # type: ignore[arg-type]
        self._iterable = iterable
        self.desc = desc or ""
        self.total = total
        self.unit = unit or "it"
        self.n = 0
        self._every = _SHOWN_SECONDS if flush_interval_s is None else flush_interval_s
        self._shown_at = 0.0
        self._shown = ""
        self._is_closed = False

    def __iter__(self) -> Iterator[Any]:
        """Give the items, and count them."""
        if self._iterable is None:
            raise ValueError("No iterable provided")
        for item in self._iterable:
            yield item
            self.update(1)
        self.close()

    def __enter__(self) -> Self:
        """Give the bar itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def set_description(self, desc: str) -> None:
        """Say what is counted."""
        self.desc = desc
        self.refresh()

    def update(self, n: int = 1) -> None:
        """Count on."""
        self.n += n
        self.refresh()

    def refresh(self) -> None:
        """Show it if a second has passed."""
        now = time.monotonic()
        if now - self._shown_at >= self._every:
            self._shown_at = now
            self._show(is_last=False)

    def close(self) -> None:
        """Show it for the last time."""
        if not self._is_closed:
            self._is_closed = True
            self._show(is_last=True)

    def _line(self) -> str:
        what = f"{self.desc}: " if self.desc else ""
        if not self.total:
            return f"{what}{self.n}{self.unit}"
        share = min(1.0, self.n / self.total)
        done = "#" * int(share * _BAR_CHARS)
        return f"{what}{share:4.0%}|{done:<{_BAR_CHARS}}| {self.n}/{self.total} {self.unit}"

    def _show(self, *, is_last: bool) -> None:
        from eagleray import _native

        line = self._line()
        if _native.is_joined() and not _native.is_driver():
            # Its reader is in another process, and shows lines.
            if line != self._shown:
                builtins.print(line, flush=True)  # noqa: T201
        else:
            is_terminal = sys.stderr is not None and sys.stderr.isatty()
            if is_terminal or is_last:
                start, end = ("\r", "\n" if is_last else "") if is_terminal else ("", os.linesep)
                builtins.print(f"{start}{line}", end=end, file=sys.stderr, flush=True)  # noqa: T201
        self._shown = line
