"""Counters, gauges and histograms of a program.

They are kept in the process that records them: nothing collects or exports them in this version. `recorded` shows them.
"""

from __future__ import annotations

import bisect
import re
import threading
import warnings
from typing import Any, Self

__all__ = ["Counter", "Gauge", "Histogram", "Metric"]

Tags = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class Metric:
    """A number with a name, for each combination of its tags' values."""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        """Check name and tags."""
        if not name:
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
        if not _NAME.fullmatch(name):
            warnings.warn(
                f"Metric name {name} contains invalid characters. Please ensure metric names match the regex "
                f"'{_NAME.pattern}'.",
                stacklevel=3,
            )
        keys = () if tag_keys is None else tag_keys
        if not isinstance(keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(tag_keys)}")
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        self._name = name
        self._description = description
        self._tag_keys = keys
        self._default_tags: dict[str, str] = {}
        self._lock = threading.Lock()
        self._values: dict[Tags, Any] = {}

    def set_default_tags(self, default_tags: dict[str, str]) -> Self:
        """Give tags values for when they are not given."""
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            if not isinstance(value, str):
                raise TypeError(f"Tag values must be str, got {type(value)}.")
        self._default_tags = dict(default_tags)
        return self

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tags and their defaults."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": dict(self._default_tags),
        }

    @property
    def recorded(self) -> dict[Tags, Any]:
        """What this process has recorded, by tags as sorted pairs."""
        with self._lock:
            return dict(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as name and tags: each process has numbers of its own."""
        return _rebuilt, (type(self), self._arguments(), self._default_tags)

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self._tag_keys

    def _tags(self, given: dict[str, str] | None) -> Tags:
        tags = {**self._default_tags, **(given or {})}
        for key, value in tags.items():
            if not isinstance(value, str):
                raise TypeError(f"Tag values must be str, got {type(value)} for {key}.")
        missing = [key for key in self._tag_keys if key not in tags]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        return tuple(sorted(tags.items()))


def _rebuilt(kind: type[Metric], arguments: tuple[Any, ...], default_tags: dict[str, str]) -> Metric:
    return kind(*arguments).set_default_tags(default_tags)


class Counter(Metric):
    """A number that only grows."""

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add to it."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"value must be int or float, got {type(value)}.")
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        key = self._tags(tags)
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + value


class Gauge(Metric):
    """A number that is what it was set to last."""

    def set(self, value: float | None, tags: dict[str, str] | None = None) -> None:
        """Set it; None changes nothing."""
        if value is None:
            return
        if not isinstance(value, (int, float)):
            raise TypeError(f"value must be int or float, got {type(value)}.")
        key = self._tags(tags)
        with self._lock:
            self._values[key] = float(value)


class Histogram(Metric):
    """How many numbers fell between which boundaries; beyond the last there is one more bucket."""

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        """Check the boundaries, which must all be above zero."""
        super().__init__(name, description, tag_keys)
        if not boundaries:
            raise ValueError("boundaries argument should be provided when using the Histogram class. e.g., [0.1, 10]")
        if any(boundary <= 0 for boundary in boundaries):
            raise ValueError(f"Invalid `boundaries` argument: {boundaries}. Use positive numbers only.")
        self.boundaries = list(boundaries)

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Count a number."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"value must be int or float, got {type(value)}.")
        key = self._tags(tags)
        with self._lock:
            counts = self._values.setdefault(key, [0] * (len(self.boundaries) + 1))
            counts[bisect.bisect_left(self.boundaries, value)] += 1

    @property
    def info(self) -> dict[str, Any]:
        """As of any metric, and the boundaries."""
        return {**super().info, "boundaries": list(self.boundaries)}

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self.boundaries, self._tag_keys
