"""Ends trials after so many results."""

from __future__ import annotations

from collections import Counter
from typing import Any

from eagleray.tune.stopper.stopper import Stopper


class MaximumIterationStopper(Stopper):
    """Ends each trial after so many results."""

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._iter: Counter[str] = Counter()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Counts it."""
        self._iter[trial_id] += 1
        return self._iter[trial_id] >= self._max_iter

    def stop_all(self) -> bool:
        """No."""
        return False
