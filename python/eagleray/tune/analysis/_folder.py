"""Trials as their folders tell of them, for experiments that are looked at long after they ran, or elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from eagleray.tune import _files
from eagleray.tune.analysis._history import History, analyse, read_error
from eagleray.tune.error import JournalError
from eagleray.tune.experiment.trial import Trial

#: Any of these makes a folder a trial's.
_MARKS = ("params.json", "result.json", "progress.csv", "error.txt")

#: `train_1e2c4_00007_7_lr=0.1_...`: the trainable, the trial's id, its number.
_NAME = re.compile(r"(?P<trainable>.+?)_(?P<id>[0-9a-z]{4,8}_(?P<number>\d{5,}))(?:_|$)")


def experiment_folder(path: str | Path) -> Path:
    """Give the folder of an experiment, also for the path of a file in it.

    Raises:
        ValueError: If there is none.
    """
    folder = Path(path).expanduser()
    if folder.is_file():
        folder = folder.parent
    if not folder.is_dir():
        raise ValueError(f"{path} is not a valid experiment folder: it does not exist.")
    return folder.absolute()


def trials_of(folder: Path) -> list[Trial]:
    """Read the trials of an experiment back from their folders, in the order in which they were made.

    What became of each is in the experiment's journal. Without one, as in folders that Ray wrote: a trial that left an error has failed;
    one that has results and no error has ended; any other has not begun.
    """
    found = [_trial(path, place) for place, path in enumerate(_trial_folders(folder))]
    statuses = _statuses(folder)
    for trial in found:
        trial.status = statuses.get(trial.path.name, trial.status) if trial.path is not None else trial.status
    return sorted(found, key=lambda trial: trial.number)


def _statuses(folder: Path) -> dict[str, str]:
    """By name of the trial's folder."""
    try:
        known = _files.read(folder) if (folder / _files.JOURNAL).exists() else None
    except JournalError:
        known = None
    return {trial.folder.name: trial.status for trial in known.trials if trial.folder is not None} if known else {}


def _trial_folders(folder: Path) -> list[Path]:
    folders = [path for path in folder.iterdir() if path.is_dir() and any((path / mark).exists() for mark in _MARKS)]
    return sorted(folders, key=lambda path: path.name)


def _trial(folder: Path, place: int) -> Trial:
    history = History(folder)
    rows = history.rows()
    last = rows[-1] if rows else {}
    name = _NAME.match(folder.name)
    trial = Trial(
        name["trainable"] if name else str(last.get("trainable_name", folder.name)),
        number=int(name["number"]) if name else place,
        trial_id=str(last.get("trial_id") or (name["id"] if name else folder.name)),
        config=history.config() or last.get("config") or {},
        experiment_tag=str(last.get("experiment_tag", "")),
        path=folder,
    )
    trial.last_result = last
    trial.metric_analysis = analyse(rows)
    # An error of an attempt that was tried again stays behind; the last result says that the trial came to its end.
    trial.error = None if last.get("done") else read_error(folder)
    trial.num_failures = 0 if trial.error is None else 1
    if trial.error is not None:
        trial.status = Trial.ERROR
    elif rows:
        trial.status = Trial.TERMINATED
    kept = history.checkpoints()
    trial.checkpoint = kept[-1][0] if kept else None
    return trial
