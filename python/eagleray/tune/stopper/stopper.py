"""What ends trials, or a whole experiment, by what is reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Stopper(ABC):
    """Decides after each result whether the trial, or everything, has ended. Subclass it for one of your own."""

    @abstractmethod
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial that reported this ends."""

    @abstractmethod
    def stop_all(self) -> bool:
        """Whether the whole experiment ends."""


class CombinedStopper(Stopper):
    """Ends what any one of several would end."""

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Each is asked, also when the first has said yes: some count what they see."""
        said = [bool(stopper(trial_id, result)) for stopper in self._stoppers]
        return any(said)

    def stop_all(self) -> bool:
        """Whether any one says so."""
        said = [bool(stopper.stop_all()) for stopper in self._stoppers]
        return any(said)
