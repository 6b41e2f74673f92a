"""Values that change with the timestep: `[[0, 0.001], [100000, 0.0001]]`, linear in between."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any


class Schedule:
    """A value by timestep: exact at each given point, linear between two, the last one's ever after.

    A plain number is a schedule that never changes.
    """

    __slots__ = ("_times", "_values")

    def __init__(self, given: Any, name: str = "schedule") -> None:
        """Read a number, or points of timestep and value, the first of them at timestep 0."""
        points = _points(given, name)
        self._times = [time for time, _ in points]
        self._values = [value for _, value in points]

    @property
    def is_constant(self) -> bool:
        """Whether it has the same value at all times."""
        return len(set(self._values)) == 1

    @property
    def values(self) -> list[float]:
        """The values at its points."""
        return list(self._values)

    def value(self, timestep: float) -> float:
        """The value at a timestep."""
        after = bisect.bisect_right(self._times, timestep)
        if after == len(self._times):
            return self._values[-1]
        if after == 0:
            return self._values[0]
        start, end = self._times[after - 1], self._times[after]
        low, high = self._values[after - 1], self._values[after]
        if timestep == start:
            return low
        return low + (high - low) * (timestep - start) / (end - start)

    __call__ = value


def is_schedule(given: Any) -> bool:
    """Whether this is points, and not a number."""
    return isinstance(given, Sequence) and not isinstance(given, str)


def check(given: Any, name: str) -> None:
    """Refuses what is neither a number nor points of a schedule."""
    Schedule(given, name)


def _points(given: Any, name: str) -> list[tuple[float, float]]:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return [(0.0, float(given))]
    if not is_schedule(given) or not given:
        raise ValueError(f"`{name}` must be a number or points [[timestep, value], ...], not {given!r}")
    points: list[tuple[float, float]] = []
    for point in given:
        if not is_schedule(point) or len(point) != 2:
            raise ValueError(f"`{name}` must consist of pairs [timestep, value]; {point!r} is none")
        time, value = point
        if not all(isinstance(part, int | float) and not isinstance(part, bool) for part in (time, value)):
            raise ValueError(f"`{name}` must consist of numbers; {point!r} does not")
        if points and time <= points[-1][0]:
            raise ValueError(f"the timesteps of `{name}` must grow; {time!r} stands behind {points[-1][0]!r}")
        points.append((float(time), float(value)))
    if points[0][0] != 0:
        raise ValueError(
            f"`{name}` must begin at timestep 0, e.g. [[0, initial_value], ...]; its first is {points[0][0]:g}"
        )
    return points
