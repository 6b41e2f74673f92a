"""An experiment as its folder tells it: the journal if there is one, else the files of its trials, also those that Ray wrote."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray._native import tune as native
from eagleray.tune.metrics import look_up

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The journal in an experiment's folder.
JOURNAL = "journal.eagleray"
_TRIAL_FILES = ("params.json", "result.json", "progress.csv", "error.txt")

#: How many experiments of a folder are named when none of them is.
_NAMED_MAX = 10


@dataclass
class TrialFiles:
    """One trial, as far as files tell of it."""

    number: int
    trial_id: str
    name: str
    status: str = "PENDING"
    config: dict[str, Any] = field(default_factory=dict)
    #: What was chosen for it: `a/b` to value.
    params: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    last: dict[str, Any] = field(default_factory=dict)
    #: All results, oldest first; only if they were asked for.
    results: list[dict[str, Any]] = field(default_factory=list)
    results_count: int = 0
    error: str | None = None
    failures: int = 0
    #: Names of checkpoints that are still there.
    checkpoints: list[str] = field(default_factory=list)

    def value(self, key: str) -> Any:
        """Look a name up: a field of the trial, a metric of its last result, a parameter."""
        own = {"number": self.number, "trial": self.name, "id": self.trial_id, "status": self.status}
        own.update({"iterations": self.iterations, "time": self.time_s, "error": self.error, "failures": self.failures})
        if key in own:
            return own[key]
        if key.startswith(("config/", "params/")):
            inner = key.partition("/")[2]
            return self.params.get(inner, look_up(self.config, inner))
        found = look_up(self.last, key)
        if found is None:
            found = self.params.get(key, look_up(self.config, key))
        return found

    @property
    def iterations(self) -> int:
        """How far it is."""
        number = self.last.get("training_iteration")
        return number if isinstance(number, int) else self.results_count

    @property
    def time_s(self) -> float | None:
        """How long it has run."""
        seconds = self.last.get("time_total_s")
        return float(seconds) if isinstance(seconds, int | float) else None


@dataclass
class ExperimentFiles:
    """An experiment, as far as files tell of it."""

    folder: Path
    about: dict[str, Any] = field(default_factory=dict)
    trials: list[TrialFiles] = field(default_factory=list)
    #: The program that works on it now.
    writer_pid: int | None = None
    #: What is wrong with its journal, if anything is.
    trouble: str | None = None

    @property
    def metric(self) -> str | None:
        """What is optimised."""
        return self.about.get("metric")

    @property
    def mode(self) -> str | None:
        """Whether more or less of it is better."""
        return self.about.get("mode")


def flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Bring nested fields to one level: `a/b` to value."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}/"))
        else:
            found[f"{prefix}{key}"] = value
    return found


def read(folder: str | os.PathLike[str], *, history: bool = False) -> ExperimentFiles:
    """Read an experiment's folder, or a single trial's. `history` keeps all results, not only the last of each trial."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    if (folder / JOURNAL).exists():
        return _from_journal(folder, history=history)
    return _from_trials(folder, history=history)


def _from_journal(folder: Path, *, history: bool) -> ExperimentFiles:
    reader = native.read_journal(str(folder / JOURNAL), until_damage=True)
    found = ExperimentFiles(folder)
    if reader.damaged_at is not None:
        found.trouble = (
            f"the journal is damaged at byte {reader.damaged_at}; what comes behind is not shown. "
            f"`eagleray tune repair {folder}` keeps a copy and cuts it there"
        )
    if reader.writer_pid is not None and os.path.exists(f"/proc/{reader.writer_pid}"):
        found.writer_pid = reader.writer_pid
    trials: dict[int, TrialFiles] = {}
    for kind, *rest in reader:
        if kind == "result":
            number, result = rest
            trial = trials.get(number)
            if trial is not None:
                trial.last = result
                trial.results_count += 1
                if history:
                    trial.results.append(result)
            continue
        fields = rest[0]
        if kind == "experiment":
            found.about = fields
        elif kind == "trial":
            trials[fields["number"]] = _of_event(folder, found.about, fields)
        elif fields.get("number") in trials:
            _apply(trials[fields["number"]], kind, fields)
    found.trials = [trials[number] for number in sorted(trials)]
    for trial in found.trials:
        if trial.folder is not None:
            trial.checkpoints = _checkpoints(trial.folder)
    return found


def _of_event(folder: Path, about: dict[str, Any], fields: dict[str, Any]) -> TrialFiles:
    place = fields.get("folder")
    params = fields.get("params")
    return TrialFiles(
        number=fields["number"],
        trial_id=str(fields.get("id", fields["number"])),
        name=f"{about.get('trainable', 'trial')}_{fields.get('id', fields['number'])}",
        config=fields.get("config") or {},
        params=flat(params) if params else {},
        folder=folder / place if place else None,
    )


def _apply(trial: TrialFiles, kind: str, fields: dict[str, Any]) -> None:
    if kind == "status":
        trial.status = fields.get("status", trial.status)
        trial.error = fields.get("error") if trial.status == "ERROR" else None
    elif kind == "failure":
        trial.failures += 1
    elif kind == "exploit":
        trial.config = fields.get("config") or trial.config
        known = flat(trial.config)
        trial.params = {key: known.get(key, value) for key, value in trial.params.items()}
    elif kind == "forget":
        trial.last = {}
        trial.results = []
        trial.results_count = 0


def _from_trials(folder: Path, *, history: bool) -> ExperimentFiles:
    found = ExperimentFiles(folder, about={"name": folder.name})
    places = [folder] if is_trial(folder) else sorted(place for place in folder.iterdir() if is_trial(place))
    found.trials = [_of_folder(number, place, history=history) for number, place in enumerate(places)]
    if not found.trials:
        # Most people begin with the folder that all of them are in.
        inside = sorted(folder.glob(f"*/{JOURNAL}"), key=lambda journal: journal.stat().st_mtime, reverse=True)
        if inside:
            names = ", ".join(journal.parent.name for journal in inside[:_NAMED_MAX])
            more = f" and {len(inside) - _NAMED_MAX} more" if len(inside) > _NAMED_MAX else ""
            raise FileNotFoundError(
                f"{folder} is no experiment but holds {len(inside)}, name one (newest first): {names}{more}"
            )
        raise FileNotFoundError(f"{folder} holds no experiment: no {JOURNAL}, and no folders of trials")
    varied = _varied([flat(trial.config) for trial in found.trials])
    for trial in found.trials:
        known = flat(trial.config)
        trial.params = {key: known[key] for key in varied if key in known}
    return found


def is_trial(place: Path) -> bool:
    """Say whether a folder is a trial's."""
    return place.is_dir() and any((place / name).exists() for name in _TRIAL_FILES)


def _of_folder(number: int, place: Path, *, history: bool) -> TrialFiles:
    trial = TrialFiles(number=number, trial_id=str(number), name=place.name, folder=place)
    try:
        config = json.loads((place / "params.json").read_text(encoding="utf-8"))
        trial.config = config if isinstance(config, dict) else {}
    except (OSError, ValueError):
        trial.config = {}
    for result in _lines(place / "result.json"):
        trial.last = result
        trial.results_count += 1
        if history:
            trial.results.append(result)
    trial.config = trial.config or trial.last.get("config") or {}
    trial.trial_id = str(trial.last.get("trial_id", trial.trial_id))
    trial.checkpoints = _checkpoints(place)
    # An error of an attempt that was tried again stays behind; the last result says that the trial came to its end.
    if trial.last.get("done"):
        trial.status = "TERMINATED"
    elif (place / "error.txt").exists():
        trial.status = "ERROR"
        trial.error = error_text(place)
    elif trial.last:
        trial.status = "UNFINISHED"
    return trial


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    result = json.loads(line)
                except ValueError:
                    # A line that was cut short: whoever wrote it was killed.
                    continue
                if isinstance(result, dict):
                    yield result
    except OSError:
        return


def _checkpoints(place: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(place) if re.fullmatch(r"checkpoint_\d+", entry.name))
    except OSError:
        return []


def error_text(place: Path) -> str | None:
    """Give what the trial's error.txt says."""
    try:
        return (place / "error.txt").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _varied(configs: list[dict[str, Any]]) -> list[str]:
    """Say which keys differ between trials; all of them, if there is one trial only."""
    keys = list(dict.fromkeys(key for config in configs for key in config))
    if len(configs) < 2:
        return keys
    shown = [[repr(config.get(key, "")) for config in configs] for key in keys]
    return [key for key, values in zip(keys, shown, strict=True) if len(set(values)) > 1]
