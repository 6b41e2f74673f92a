"""Helpers that libraries use in their tests; eagleray's own are in `eagleray.testing`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import eagleray


def wait_for_condition(
    condition_predictor: Any,
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,  # noqa: FBT001, FBT002
    **kwargs: Any,
) -> None:
    """Wait until the function returns something true; raise RuntimeError if it does not in time."""
    until = time.monotonic() + timeout
    last: Exception | None = None
    while time.monotonic() <= until:
        try:
            if condition_predictor(**kwargs):
                return
            last = None
        except Exception as error:
            if raise_exceptions:
                raise
            last = error
        time.sleep(retry_interval_ms / 1000)
    raise RuntimeError("The condition wasn't met before the timeout expired.") from last


@eagleray.remote(num_cpus=0)
class SignalActor:
    """A signal that tasks wait for."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    async def send(self, clear: bool = False) -> None:  # noqa: FBT001, FBT002
        """Let all go on who wait."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:  # noqa: FBT001, FBT002
        """Wait for the signal."""
        self.num_waiters += 1
        if should_wait:
            await self.ready_event.wait()
        self.num_waiters -= 1

    async def cur_num_waiters(self) -> int:
        """Count who waits."""
        return self.num_waiters
