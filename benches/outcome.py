"""What came of one case on one system: rounds, an absence, or an error."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

ERROR_PART_MAX = 120


@dataclass
class Outcome:
    """`rounds` holds one figure per round, in the case's unit; absent means that the system has no such thing."""

    rounds: list[float] = field(default_factory=list)
    session_seconds: float | None = None
    absent: bool = False
    error: str | None = None

    @property
    def value(self) -> float | None:
        """The median round."""
        return statistics.median(self.rounds) if self.rounds else None

    def add(self, other: Outcome) -> None:
        """Take in the rounds of a further turn; an error stands only while there is no figure."""
        self.rounds += other.rounds
        self.absent = other.absent and not self.rounds
        self.error = None if self.rounds else other.error
        self.session_seconds = other.session_seconds

    @property
    def short_error(self) -> str:
        """The error in one line: its first and, where there are more, its last."""
        lines = (self.error or "").splitlines() or [""]
        parts = lines[:1] if len(lines) == 1 else [lines[0], lines[-1].strip()]
        return " ... ".join(part if len(part) <= ERROR_PART_MAX else part[:ERROR_PART_MAX] + "..." for part in parts)
