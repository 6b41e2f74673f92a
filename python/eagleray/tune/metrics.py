"""Metrics inside of results: by name, nested ones by `a/b`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def look_up(result: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of a metric, or `default`. A key that itself contains a slash comes first."""
    if name in result:
        return result[name]
    if "/" not in name:
        return default
    value: Any = result
    for part in name.split("/"):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value
