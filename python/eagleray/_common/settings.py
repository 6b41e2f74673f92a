"""Settings in the environment, under our name or the one that programs written for Ray set. Ours counts where both are set."""

from __future__ import annotations

import os

_OFF = ("0", "false", "False")


def from_env(name: str) -> str | None:
    """Look a setting up; None if it is not set, or set to nothing."""
    for prefix in ("EAGLERAY_", "RAY_"):
        if value := os.environ.get(prefix + name):
            return value
    return None


def is_on(name: str, *, default: bool) -> bool:
    """Tell whether a setting that is on or off is on."""
    value = from_env(name)
    return default if value is None else value not in _OFF
