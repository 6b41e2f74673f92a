"""One runner that is an actor, as its group sees it."""

from __future__ import annotations

import logging
import time
from typing import Any

import eagleray
from eagleray.rllib.env._starting import has_process

_logger = logging.getLogger("eagleray.rllib")


class NoAnswerError(TimeoutError):
    """A runner was silent for too long. An environment that raises a TimeoutError of its own has answered."""

    def __init__(self, index: int, seconds: float) -> None:
        super().__init__(f"runner {index} gave no answer in {seconds:g} s")
        self.seconds = seconds


class Remote:
    """One actor that samples."""

    def __init__(self, index: int, actor: Any) -> None:
        self.index = index
        self.actor = actor
        self.failures_in_a_row = 0
        #: A request that was not answered in time, and how often it was waited for.
        self.pending: Any = None
        self.waited = 0
        #: Answered once the actor is there that was put in another's place; None if it is known to be.
        self._arrival: Any = None
        self._until = 0.0
        self._patience_s = 0.0
        #: Whether others went on without it.
        self.was_missed = False

    def replace(self, actor: Any, patience_s: float) -> None:
        """Put another actor in its place, which may have to wait for room: others wait so long for it."""
        self.actor = actor
        self.pending, self.waited, self.was_missed = None, 0, False
        self._arrival, self._patience_s = actor.ping.remote(), patience_s
        self._until = time.monotonic() + patience_s

    @property
    def is_awaited(self) -> bool:
        """Tell whether it is not known to have a process yet."""
        return self._arrival is not None

    def arrives(self) -> bool:
        """Wait for it as long as there is patience. Returns whether it has a process, and says so if that is not soon."""
        left = max(self._until - time.monotonic(), 0.0)
        if eagleray.wait([self._arrival], timeout=left, fetch_local=False)[0] or has_process(self.actor):
            self._arrival = None
            return True
        if not self.was_missed:
            self.was_missed = True
            _logger.warning(
                "runner %d found no room for %g s; the others go on without it. Free are %s.",
                self.index,
                self._patience_s,
                eagleray.available_resources(),
            )
        return False
