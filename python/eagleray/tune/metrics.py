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
