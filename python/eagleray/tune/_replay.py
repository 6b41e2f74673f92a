"""Brings an experiment back to where its journal ends.

The journal is told again to fresh brains, in order: they are functions of what they are told, so they end up where they were. What was
proposed before is taken from the journal, whatever a searcher proposes now.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle
from eagleray._native import tune as native
from eagleray.tune._record import JOURNAL
from eagleray.tune.error import TuneError
from eagleray.tune.experiment.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from eagleray.tune._plan import Plan
    from eagleray.tune._record import Record


@dataclass
class Resume:
    """What becomes of the trials of an earlier run."""

    experiment_id: str
    events: list[Any]
    unfinished: bool = True
    errored: bool = False
    restart_errored: bool = False
    #: Nothing goes on: it is only looked at.
    is_look: bool = False


def read(folder: Path) -> Resume:
    """Reads the journal of an experiment."""
    path = folder / JOURNAL
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no experiment: there is no {JOURNAL} in it")
    events = list(native.read_journal(str(path)))
    if not events or events[0][0] != "experiment":
        raise TuneError(f"{path} does not begin with an experiment")
    return Resume(experiment_id=events[0][1]["id"], events=events)


def head(resume: Resume) -> dict[str, Any]:
    """What the experiment was."""
    said: dict[str, Any] = resume.events[0][1]
    return said


class _Past:
    """The controller that schedulers see while the journal is told again: what they ask for was done long ago."""

    is_replaying = True

    def __init__(self, plan: Plan, trials: list[Trial]) -> None:
        self.trials = trials
        self.search_alg = plan.search_alg

    def get_trials(self) -> list[Trial]:
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def _nothing(self, *_: Any, **__: Any) -> None:
        """It was done."""

    pause_trial = unpause_trial = stop_trial = save_trial = exploit = update_trial_resources = _nothing

    def has_resources_for_trial(self, trial: Trial) -> bool:
        return True


def replay(plan: Plan, record: Record, resume: Resume) -> list[Trial]:
    """The trials of an earlier run, each as it is to go on."""
    trials: list[Trial] = []
    past = _Past(plan, trials)
    decided: set[int] = set()
    lines: dict[int, int] = {}
    for kind, *rest in resume.events:
        if kind == "result":
            number, result = rest
            lines[number] = lines.get(number, 0) + 1
            _tell_result(plan, record, past, trials[number], result, is_decided=number in decided)
            continue
        fields = rest[0]
        if kind == "ends":
            decided.add(fields["number"])
        if kind == "trial":
            trial = _make(plan, record, fields)
            trials.append(trial)
            plan.scheduler.on_trial_add(past, trial)
        elif kind == "status":
            _tell_status(plan, past, trials[fields["number"]], fields)
        elif kind == "checkpoint":
            record.restore_checkpoint(trials[fields["number"]], fields)
        elif kind == "exploit":
            trial = trials[fields["number"]]
            trial.config = cloudpickle.loads(base64.b64decode(fields["pickle"]))
            record.restore_exploit(trial, fields)
        elif kind == "forget":
            record.forgotten(trials[fields["number"]])
        elif kind == "failure":
            trials[fields["number"]].num_failures += 1
    if not resume.is_look:
        _mend_files(record, trials, resume, lines)
        for trial in trials:
            _decide(plan, record, trial, resume)
    return trials


def _make(plan: Plan, record: Record, fields: dict[str, Any]) -> Trial:
    config, chosen = cloudpickle.loads(base64.b64decode(fields["pickle"]))
    # The searcher moves on as it did; its answer is known.
    plan.search_alg.next_config(fields["id"])
    return record.make_trial(fields["number"], fields["id"], config, chosen, fields["tag"], fields["folder"])


#: So many of the last results may have reached the journal and not the files that other tools read.
_LAST = 4_000


def _mend_files(record: Record, trials: list[Trial], resume: Resume, lines: dict[int, int]) -> None:
    """The journal is written first: whoever was killed in between left fewer lines in the trial's files."""
    last = {event[1] for event in resume.events[-_LAST:] if event[0] == "result"}
    for number in last:
        path = trials[number].path
        file = None if path is None else path / "result.json"
        if file is not None and file.exists() and file.read_bytes().count(b"\n") == lines[number]:
            continue
        record.rewrite(
            trials[number], [event[2] for event in resume.events if event[0] == "result" and event[1] == number]
        )


def _tell_result(
    plan: Plan, record: Record, past: _Past, trial: Trial, result: dict[str, Any], *, is_decided: bool
) -> None:
    result = {**result, "trial_id": trial.trial_id, "config": trial.config}
    if not record.is_new(trial, result):
        return
    trial.last_result = result
    trial.note_metrics({key: value for key, value in result.items() if key != "config"})
    if not is_decided:
        plan.scheduler.on_trial_result(past, trial, result)
        plan.search_alg.on_trial_result(trial.trial_id, result)


def _tell_status(plan: Plan, past: _Past, trial: Trial, fields: dict[str, Any]) -> None:
    was_finished, trial.status = trial.is_finished(), fields["status"]
    if was_finished or not trial.is_finished():
        return
    result = trial.last_result or None
    if trial.status == Trial.ERROR:
        trial.error = TuneError(fields.get("error", "unknown"))
        plan.scheduler.on_trial_error(past, trial)
        plan.search_alg.on_trial_complete(trial.trial_id, result, error=True)
    else:
        plan.scheduler.on_trial_complete(past, trial, trial.last_result)
        plan.search_alg.on_trial_complete(trial.trial_id, result)


def _decide(plan: Plan, record: Record, trial: Trial, resume: Resume) -> None:
    """Whether a trial of the earlier run goes on."""
    if trial.status == Trial.ERROR and (resume.errored or resume.restart_errored):
        trial.error = None
        trial.num_failures = 0
        if resume.restart_errored:
            record.forget(trial)
        trial.status = Trial.PENDING
        plan.scheduler.on_trial_add(_Past(plan, [trial]), trial)
    elif not trial.is_finished():
        if resume.unfinished:
            trial.status = Trial.PENDING if trial.status != Trial.PAUSED else Trial.PAUSED
        else:
            trial.status = Trial.TERMINATED
    # Whatever it is now is told to the journal as a change.
    record.status(trial, "")
