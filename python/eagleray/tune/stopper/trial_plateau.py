"""Ends trials that no longer change."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict, deque
from typing import Any

from eagleray.tune.stopper.stopper import Stopper


class TrialPlateauStopper(Stopper):
    """Ends a trial when its last results hardly differ.

    Args:
        metric: what is looked at.
        std: below this standard deviation the trial has come to rest.
        num_results: how many results are looked at.
        grace_period: so many results come first.
        metric_threshold: only a trial that is at least this good is ended.
        mode: "min" or "max"; needed with a threshold.
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(
                f"When specifying a `metric_threshold`, the `mode` argument has to be one of [min, max]. Got: {mode}"
            )
        self._metric = metric
        self._mode = mode
        self._std = std
        self._num_results = num_results
        self._grace_period = grace_period
        self._metric_threshold = metric_threshold
        self._iter: defaultdict[str, int] = defaultdict(int)
        self._trial_results: dict[str, deque[Any]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Looks at the last results of the trial."""
        latest = result.get(self._metric)
        results = self._trial_results.setdefault(trial_id, deque(maxlen=self._num_results))
        results.append(latest)
        self._iter[trial_id] += 1
        if self._iter[trial_id] < self._grace_period or len(results) < self._num_results:
            return False
        # What is no number does not rest.
        if not all(_is_number(value) for value in results):
            return False
        if self._metric_threshold is not None and latest is not None:
            if self._mode == "min" and latest > self._metric_threshold:
                return False
            if self._mode == "max" and latest < self._metric_threshold:
                return False
        return statistics.pstdev(map(float, results)) < self._std

    def stop_all(self) -> bool:
        """No."""
        return False


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:
        return False
