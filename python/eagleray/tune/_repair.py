"""Cuts a damaged journal where the damage begins, so that its experiment can go on from there. Nothing is deleted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eagleray._native import tune as native
from eagleray.tune import _files
from eagleray.tune._files import JOURNAL


@dataclass(frozen=True)
class Repaired:
    """What was done."""

    #: Where the journal ends now.
    offset: int
    #: Events before the damage; whole ones behind it; bytes behind it.
    kept: int
    dropped: int
    dropped_bytes: int
    #: The journal as it was.
    copy: Path
    #: Where the folders are of trials that the journal no longer knows, and how many.
    aside: Path
    moved: int


def repair(folder: Path) -> Repaired | None:
    """Repairs the journal in an experiment's folder. None if it is not damaged.

    Raises:
        FileNotFoundError: If there is none.
        JournalError: If it is not a journal, or somebody writes it.
    """
    path = folder / JOURNAL
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no experiment: there is no {JOURNAL} in it")
    done = native.repair_journal(str(path))
    if done is None:
        return None
    offset, kept, dropped, dropped_bytes, copy = done
    copy = Path(copy)
    aside = folder / f"dropped-{copy.name.rpartition('-')[2]}"
    moved = 0
    if kept:
        with native.Journal(str(path), create=False) as journal:
            # Who resumes looks at the files of all trials: they may say more than the journal does now.
            journal.append("repaired", {"offset": offset, "dropped": dropped, "copy": copy.name})
        moved = _move_aside(folder, aside)
    return Repaired(offset, kept, dropped, dropped_bytes, copy, aside, moved)


def _move_aside(folder: Path, aside: Path) -> int:
    """Trials that the journal does not know are made again, in folders of their own: they must not be counted twice."""
    known = {trial.folder.name for trial in _files.read(folder).trials if trial.folder is not None}
    strange = [place for place in folder.iterdir() if _files.is_trial(place) and place.name not in known]
    for place in strange:
        aside.mkdir(exist_ok=True)
        place.rename(aside / place.name)
    return len(strange)
