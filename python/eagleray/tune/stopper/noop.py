"""Ends nothing."""

from __future__ import annotations

from typing import Any

from eagleray.tune.stopper.stopper import Stopper


class NoopStopper(Stopper):
    """Ends nothing."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No."""
        return False

    def stop_all(self) -> bool:
        """No."""
        return False
