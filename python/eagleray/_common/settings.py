"""Settings in the environment, under our name or the one that programs written for Ray set."""

from __future__ import annotations

import os


def from_env(name: str) -> str | None:
    """Look a setting up; None if it is not set."""
    for prefix in ("EAGLERAY_", "RAY_"):
        if value := os.environ.get(prefix + name):
            return value
    return None
