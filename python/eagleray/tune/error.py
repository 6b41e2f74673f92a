"""What Tune raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class TuneError(Exception):
    """Something is wrong with an experiment, a trial or what was asked for."""


class JournalError(TuneError):
    """The file that an experiment is resumed from could not be read or written; the text says where and why."""

    def __init__(self, text: str = "", path: Path | None = None) -> None:
        super().__init__(text)
        self.path = path


class JournalLocked(JournalError):
    """Another program works on the experiment."""

    def __init__(self, text: str = "", path: Path | None = None, pid: int | None = None) -> None:
        super().__init__(text, path)
        self.pid = pid


class JournalDamaged(JournalError):
    """Bytes in the middle of the file are not what was written. What is before `offset` can still be read."""

    def __init__(self, text: str = "", path: Path | None = None, offset: int | None = None) -> None:
        super().__init__(text, path)
        self.offset = offset
