"""Values that callbacks log, reduced to one number for each result."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_REDUCED = ("mean", "sum", "min", "max", "lifetime_sum", None)
_NOTHING = object()


class _Stat:
    """The values of one key."""

    def __init__(self, reduce: str | None, window: int | None, *, clears: bool) -> None:
        if reduce not in _REDUCED:
            raise ValueError(f"`reduce` must be one of {_REDUCED}, not {reduce!r}")
        self.reduce = reduce
        self.clears = clears
        self.values: deque[Any] = deque(maxlen=window)

    def result(self) -> Any:
        values = list(self.values)
        if self.reduce is None:
            return values
        if not values:
            return 0 if self.reduce.endswith("sum") else float("nan")
        if self.reduce == "min":
            return min(values)
        if self.reduce == "max":
            return max(values)
        total = sum(values)
        return total if self.reduce.endswith("sum") else total / len(values)


class MetricsLogger:
    """Takes values under names and gives one for each: a mean over the last ones, a sum, the least or the most."""

    def __init__(self) -> None:
        self._stats: dict[tuple[str, ...], _Stat] = {}
        #: The last result of an algorithm, whose numbers can be looked up too.
        self.reported: dict[str, Any] = {}

    def log_value(
        self,
        key: str | tuple[str, ...],
        value: Any,
        *,
        reduce: str | None = "mean",
        window: int | None = None,
        ema_coeff: float | None = None,
        clear_on_reduce: bool = False,
        with_throughput: bool = False,
        throughput_ema_coeff: float | None = None,
    ) -> None:
        """Log a value under a name, or under a path of them."""
        path = (key,) if isinstance(key, str) else tuple(key)
        if path not in self._stats:
            # A mean without a window would hold every value for ever.
            size = window or (100 if reduce == "mean" and not clear_on_reduce else None)
            self._stats[path] = _Stat(reduce, size, clears=clear_on_reduce or reduce is None)
        stat = self._stats[path]
        if stat.reduce in ("sum", "lifetime_sum") and stat.values and stat.values.maxlen is None:
            stat.values[0] += value
        else:
            stat.values.append(value)

    def log_dict(self, stats_dict: dict[str, Any], *, key: str | tuple[str, ...] = (), **how: Any) -> None:
        """Log each value of a nested dictionary."""
        path = (key,) if isinstance(key, str) else tuple(key)
        for name, value in stats_dict.items():
            if isinstance(value, dict):
                self.log_dict(value, key=(*path, name), **how)
            else:
                self.log_value((*path, name), value, **how)

    @contextlib.contextmanager
    def log_time(self, key: str | tuple[str, ...], **how: Any) -> Iterator[None]:
        """Log how long what stands in the `with` takes, in seconds."""
        start = time.perf_counter()
        yield
        self.log_value(key, time.perf_counter() - start, **how)

    def peek(self, key: str | tuple[str, ...] = (), default: Any = None, **_: Any) -> Any:
        """The number of a name as it is now, or a dictionary of all below it."""
        path = (key,) if isinstance(key, str) else tuple(key)
        if path in self._stats:
            return self._stats[path].result()
        below = {name: stat for name, stat in self._stats.items() if name[: len(path)] == path}
        if not below:
            if path and (found := _found(self.reported, path)) is not _NOTHING:
                return found
            if default is None and path:
                raise KeyError(key)
            return default if path else {}
        return _nested({name[len(path) :]: stat.result() for name, stat in below.items()})

    def reduce(self) -> dict[str, Any]:
        """All numbers. What clears itself begins anew."""
        found = _nested({name: stat.result() for name, stat in self._stats.items()})
        for stat in self._stats.values():
            if stat.clears:
                stat.values.clear()
        return found

    def logged(self) -> list[tuple[tuple[str, ...], list[Any], dict[str, Any]]]:
        """What was logged since the last time, for another logger to take. Nothing is left here."""
        found = []
        for path, stat in self._stats.items():
            how = {"reduce": stat.reduce, "window": stat.values.maxlen, "clear_on_reduce": stat.clears}
            found.append((path, list(stat.values), how))
        self._stats.clear()
        return found

    def take(self, logged: list[tuple[tuple[str, ...], list[Any], dict[str, Any]]]) -> None:
        """Log what another logger gives away."""
        for path, values, how in logged:
            for value in values:
                self.log_value(path, value, **how)


def _found(nested: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(nested, dict) or name not in nested:
            return _NOTHING
        nested = nested[name]
    return nested


def _nested(flat: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        inner = nested
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return nested
