"""Metrics inside of results: by name, nested ones by `a/b`."""

from __future__ import annotations

from typing import Any


def look_up(result: dict[str, Any], name: str) -> Any:
    """The value of a metric, or None. A key that itself contains a slash comes first."""
    if name in result:
        return result[name]
    value: Any = result
    for part in name.split("/"):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


#: What is a number in a result and no metric.
_COUNTERS = frozenset({"timestamp", "pid", "done"})


def note_metrics(analysis: dict[str, dict[str, Any]], metrics: dict[str, Any], prefix: str = "") -> None:
    """Keeps of each metric its last, largest, smallest and average value."""
    for key, value in metrics.items():
        if isinstance(value, dict):
            note_metrics(analysis, value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and key not in _COUNTERS:
            name = prefix + key if prefix else key
            seen = analysis.get(name)
            if seen is None:
                analysis[name] = {"max": value, "min": value, "avg": value, "last": value, "count": 1}
                continue
            if not value <= seen["max"]:
                seen["max"] = value
            if not value >= seen["min"]:
                seen["min"] = value
            seen["count"] += 1
            seen["avg"] += (value - seen["avg"]) / seen["count"]
            seen["last"] = value
