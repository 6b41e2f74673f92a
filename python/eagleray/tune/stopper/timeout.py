"""Ends an experiment after some time."""

from __future__ import annotations

import datetime as dt
import logging
import time
from typing import Any

from eagleray.tune.stopper.stopper import Stopper

logger = logging.getLogger(__name__)


class TimeoutStopper(Stopper):
    """Ends the whole experiment after so many seconds, or a `datetime.timedelta`.

    Time counts from the first question, and only while the experiment runs: one that is resumed has what was left.
    """

    def __init__(self, timeout: float | dt.timedelta) -> None:
        if isinstance(timeout, dt.timedelta):
            self._timeout_seconds = timeout.total_seconds()
        else:
            self._timeout_seconds = _seconds(timeout)
        self._budget = self._timeout_seconds
        self._last_check: float | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No single trial is ended."""
        return False

    def stop_all(self) -> bool:
        """Whether the time is over."""
        now = time.monotonic()
        if self._last_check is not None:
            self._budget -= now - self._last_check
        self._last_check = now
        if self._budget > 0:
            return False
        logger.info("Reached timeout of %s seconds. Stopping all trials.", self._timeout_seconds)
        return True

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # The time between two runs is nobody's.
        self._last_check = None


def _seconds(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise ValueError(
            f"`timeout` parameter has to be either a number or a `datetime.timedelta` object. Found: {type(timeout)}"
        )
    return float(timeout)
