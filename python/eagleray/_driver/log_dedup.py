"""Turns what workers print into what the driver prints.

A line that one worker prints comes out at once, behind the worker's name. If other workers print the same, as a hundred
workers with the same warning do, their lines are counted and come out as one, a few seconds later.

Pure: it has no clock and prints nothing. Times are seconds on any clock that only goes forward.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_S = 5.0

#: Different lines remembered at a time; beyond it the oldest is told and forgotten.
LINES_MAX = 10_000

_HINT = " (Lines that several workers print are merged. Set RAY_DEDUP_LOGS=0 to see each of them.)"

#: Numbers and addresses do not make two lines different.
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")

_CYAN, _PLAIN = "\033[36m", "\033[0m"


class Source:
    """A worker, as its lines name it; `node` says where it is."""

    __slots__ = ("_key", "name", "node", "pid")

    def __init__(self, name: str, pid: int, node: str = "") -> None:
        self.name = name
        self.pid = pid
        self.node = node
        self._key = (pid, node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        where = f"pid={self.pid}, {self.node}" if self.node else f"pid={self.pid}"
        return f"({self.name} {where})" if self.name else f"({where})"


class Printed:
    """A line for the driver to print."""

    __slots__ = ("is_error", "text")

    def __init__(self, text: str, *, is_error: bool) -> None:
        self.text = text
        self.is_error = is_error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Printed) and (self.text, self.is_error) == (other.text, other.is_error)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{'stderr' if self.is_error else 'stdout'}: {self.text}"


class _Repeated:
    """A line that was printed, and how often others have said it since."""

    __slots__ = ("count", "is_error", "last", "since", "sources")

    def __init__(self, since: float, source: Source, *, is_error: bool) -> None:
        self.since = since
        self.sources = {source}
        self.is_error = is_error
        self.count = 0
        self.last = ""


class LogDedup:
    """Merges equal lines of several workers. Feed it lines, and `poll` it when `deadline()` has come."""

    def __init__(
        self,
        *,
        is_on: bool = True,
        window_s: float = WINDOW_S,
        always: str = "",
        never: str = "",
        has_color: bool = False,
    ) -> None:
        self._is_on = is_on
        self._window_s = window_s
        self._always = re.compile(always) if always else None
        self._never = re.compile(never) if never else None
        self._has_color = has_color
        self._hint = _HINT
        # In order of `since`: a line goes to the end when its window starts again.
        self._seen: dict[tuple[str, bool], _Repeated] = {}

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, has_color: bool = False) -> LogDedup:
        """As the user's environment says: RAY_DEDUP_LOGS and those that begin like it."""

        def setting(name: str, default: str) -> str:
            return environ.get(f"EAGLERAY_{name}", environ.get(f"RAY_{name}", default))

        return cls(
            is_on=setting("DEDUP_LOGS", "1") not in ("0", "false", "False", ""),
            window_s=float(setting("DEDUP_LOGS_AGG_WINDOW_S", str(WINDOW_S))),
            always=setting("DEDUP_LOGS_ALLOW_REGEX", ""),
            never=setting("DEDUP_LOGS_SKIP_REGEX", ""),
            has_color=has_color,
        )

    def feed(self, now: float, source: Source, line: str, *, is_error: bool = False) -> list[Printed]:
        """What to print now that a worker has printed this line."""
        if not self._is_on:
            return [self._printed(source, line, is_error=is_error)]
        out = self.poll(now)
        if self._never is not None and self._never.search(line):
            return out
        key = (_VARYING.sub("0", line), is_error)
        known = self._seen.get(key)
        if self._always is not None and self._always.search(line):
            out.append(self._printed(source, line, is_error=is_error))
        elif known is None:
            self._seen[key] = _Repeated(now, source, is_error=is_error)
            out.append(self._printed(source, line, is_error=is_error))
            if len(self._seen) > LINES_MAX:
                out += self._told(self._seen.pop(next(iter(self._seen))))
        elif known.sources == {source}:
            # One worker alone: a loop that prints its progress must be seen as it goes.
            out.append(self._printed(source, line, is_error=is_error))
        else:
            known.sources.add(source)
            known.count += 1
            known.last = self._prefixed(source, line)
        return out

    def poll(self, now: float) -> list[Printed]:
        """What to print because time has passed."""
        out: list[Printed] = []
        while (deadline := self.deadline()) is not None and deadline <= now:
            key, repeated = next(iter(self._seen.items()))
            del self._seen[key]
            if repeated.count:
                out += self._told(repeated)
                # They may well go on, so the next ones wait for a window too.
                repeated.since, repeated.count = now, 0
                self._seen[key] = repeated
        return out

    def flush(self) -> list[Printed]:
        """What is left to print at the end."""
        out = [line for repeated in self._seen.values() for line in self._told(repeated)]
        self._seen.clear()
        return out

    def deadline(self) -> float | None:
        """When `poll` will next have something to do."""
        first = next(iter(self._seen.values()), None)
        return None if first is None else first.since + self._window_s

    def _told(self, repeated: _Repeated) -> list[Printed]:
        if not repeated.count:
            return []
        text = repeated.last
        if repeated.count > 1:
            text += f" [repeated {repeated.count}x across cluster]{self._hint}"
            self._hint = ""
        return [Printed(text, is_error=repeated.is_error)]

    def _printed(self, source: Source, line: str, *, is_error: bool) -> Printed:
        return Printed(self._prefixed(source, line), is_error=is_error)

    def _prefixed(self, source: Source, line: str) -> str:
        prefix = f"{_CYAN}{source}{_PLAIN} " if self._has_color else f"{source} "
        # What a terminal writes over what stood there, as progress bars have it, keeps the name before it.
        return prefix + (line.replace("\r", "\r" + prefix) if "\r" in line else line)
