"""How busy the machine is, as results say it under `perf`."""

from __future__ import annotations

import time
from pathlib import Path

_STAT, _MEMINFO = Path("/proc/stat"), Path("/proc/meminfo")

#: Seconds for which a measurement is good: the kernel counts in hundredths, and results may come every few milliseconds.
_GOOD_S = 0.25


class Load:
    """Shares of processors and memory in use, of the whole machine. Where the kernel does not tell, there are none."""

    def __init__(self) -> None:
        self._ticks = _ticks()
        self._at = time.monotonic()
        self._found: dict[str, float] = {}

    def percents(self) -> dict[str, float]:
        """Of the processors since the last measurement, of the memory now."""
        now = time.monotonic()
        if self._found and now - self._at < _GOOD_S:
            return dict(self._found)
        before, self._ticks, self._at = self._ticks, _ticks(), now
        if before is not None and self._ticks is not None and self._ticks[1] > before[1]:
            busy, all_ = self._ticks[0] - before[0], self._ticks[1] - before[1]
            # Counters of waiting may go back a little.
            self._found["cpu_util_percent"] = min(max(100.0 * busy / all_, 0.0), 100.0)
        if (memory := _memory()) is not None:
            self._found["ram_util_percent"] = memory
        return dict(self._found)


def _ticks() -> tuple[int, int] | None:
    """Busy ones and all, of all processors since the machine began."""
    try:
        with _STAT.open() as file:
            user, nice, system, idle, waiting, *more = map(int, file.readline().split()[1:])
    except (OSError, ValueError):
        return None
    # What guests use stands in `user` already.
    busy = user + nice + system + sum(more[:3])
    return busy, busy + idle + waiting


def _memory() -> float | None:
    try:
        lines = (line.split() for line in _MEMINFO.read_text().splitlines()[:5])
        told = {line[0].rstrip(":"): int(line[1]) for line in lines}
        return 100.0 * (1 - told["MemAvailable"] / told["MemTotal"])
    except (OSError, ValueError, KeyError, IndexError, ZeroDivisionError):
        return None
