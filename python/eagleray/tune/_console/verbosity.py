"""How much is said."""

from __future__ import annotations

from enum import IntEnum


class Verbosity(IntEnum):
    """How much is said: nothing, the experiment's status, a line for each result too, or all of each result."""

    V0_MINIMAL = 0
    V1_EXPERIMENT = 1
    V2_TRIAL_NORM = 2
    V3_TRIAL_DETAILS = 3

    def __int__(self) -> int:
        return self.value


class AirVerbosity(IntEnum):
    """The names of Ray 2.x for the first three of these."""

    SILENT = 0
    DEFAULT = 1
    VERBOSE = 2

    def __repr__(self) -> str:
        return str(self.value)


def verbosity_of(verbose: int | None) -> Verbosity:
    """Give the level that a user's `verbose` means; None is the status alone. More than everything is everything.

    Raises:
        ValueError: If it is no level.
    """
    if verbose is None:
        return Verbosity.V1_EXPERIMENT
    if not isinstance(verbose, int):
        raise ValueError(f"verbose must be a number from 0 to 3, an AirVerbosity or a Verbosity, not {verbose!r}")
    if verbose < 0:
        raise ValueError(f"verbose must not be negative, but is {verbose}")
    return Verbosity(min(int(verbose), Verbosity.V3_TRIAL_DETAILS.value))
