"""Brings an experiment back to where its journal ends.

The journal is told again to fresh brains, in order: they are functions of what they are told, so they end up where they were. What was
proposed before is taken from the journal, whatever a searcher proposes now.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle
from eagleray._native import tune as native
from eagleray.tune._files import JOURNAL
from eagleray.tune.analysis._history import read_error
from eagleray.tune.error import TuneError
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers.trial_scheduler import TrialScheduler
from eagleray.tune.search.basic_variant import BasicVariantGenerator

if TYPE_CHECKING:
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
    #: Whether the program that wrote it last was cut short.
    was_killed: bool = False
    #: Nothing goes on: it is only looked at.
    is_look: bool = False


def read(folder: Path) -> Resume:
    """Reads the journal of an experiment."""
    path = folder / JOURNAL
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no experiment: there is no {JOURNAL} in it")
    reader = native.read_journal(str(path))
    events = list(reader)
    if not events or events[0][0] != "experiment":
        raise TuneError(f"{path} does not begin with an experiment")
    # Whoever ends in order takes its name off the journal.
    return Resume(experiment_id=events[0][1]["id"], events=events, was_killed=reader.writer_pid is not None)


def head(resume: Resume) -> dict[str, Any]:
    """What the experiment was."""
    said: dict[str, Any] = resume.events[0][1]
    return said


def same_search(resume: Resume, max_concurrent: int | None) -> BasicVariantGenerator:
    """What proposes if no searcher was named, with the seed that it had."""
    return BasicVariantGenerator(max_concurrent=max_concurrent or 0, random_state=head(resume).get("seed"))


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
    #: Checkpoints whose results come behind them. If none does, the journal was cut short: the checkpoint does not count either.
    ahead: dict[int, list[dict[str, Any]]] = {}
    #: Whether a trial's last result was to pause it, and the journal may end before it says so.
    pausing: dict[int, bool] = {}
    #: Of each trial: the places of its results that count.
    places: dict[int, list[int]] = {}
    for place, (kind, *rest) in enumerate(resume.events):
        if kind == "result":
            number, result = rest
            places.setdefault(number, []).append(place)
            for one in ahead.pop(number, []):
                record.restore_checkpoint(trials[number], one, result)
            is_paused = _tell_result(plan, record, past, trials[number], result, is_decided=number in decided)
            pausing[number] = is_paused
            continue
        fields = rest[0]
        if kind == "ends":
            decided.add(fields["number"])
        if kind == "trial":
            trial = _make(plan, record, fields)
            trials.append(trial)
            plan.scheduler.on_trial_add(past, trial)
        elif kind == "status":
            decided.discard(fields["number"])
            pausing.pop(fields["number"], None)
            _tell_status(plan, past, trials[fields["number"]], fields)
        elif kind == "checkpoint":
            if fields.get("ahead"):
                ahead.setdefault(fields["number"], []).append(fields)
            else:
                record.restore_checkpoint(trials[fields["number"]], fields)
        elif kind == "exploit":
            trial = trials[fields["number"]]
            trial.config = _unpickled(fields["pickle"])
            record.restore_exploit(trial, fields)
        elif kind == "forget":
            places.pop(fields["number"], None)
            record.forgotten(trials[fields["number"]])
        elif kind == "failure":
            trials[fields["number"]].num_failures += 1
    if not resume.is_look:
        for trial in trials:
            if pausing.get(trial.number) and trial.status == Trial.RUNNING:
                trial.status = Trial.PAUSED
            if _decide(plan, record, past, trial, resume):
                places.pop(trial.number, None)
        _mend_files(record, trials, resume, places)
    return trials


def _make(plan: Plan, record: Record, fields: dict[str, Any]) -> Trial:
    config, chosen = _unpickled(fields["pickle"])
    # The searcher moves on as it did; its answer is known.
    trace = _unpickled(fields["trace"]) if "trace" in fields else None
    plan.search_alg.retrace(fields["id"], trace)
    return record.make_trial(fields["number"], fields["id"], config, chosen, fields["tag"], fields["folder"])


def _unpickled(text: str) -> Any:
    return cloudpickle.loads(base64.b64decode(text))


#: So many of the last events may have reached the journal and not the files that other tools read.
_LAST = 4_000


def _mend_files(record: Record, trials: list[Trial], resume: Resume, places: dict[int, list[int]]) -> None:
    """The journal is written first: whoever was killed in between left fewer lines in some of a trial's files, or half of one."""
    last = {event[1] for event in resume.events[-_LAST:] if event[0] == "result"}
    last |= {event[1]["number"] for event in resume.events if event[0] == "forget"}
    if any(event[0] == "repaired" for event in resume.events):
        last |= {trial.number for trial in trials}
    last |= {trial.number for trial in trials if trial.number not in places and not trial.is_finished()}
    for number in sorted(last):
        trial, counted = trials[number], places.get(number, [])
        file = None if trial.path is None else trial.path / "result.json"
        if file is None or (not counted and not file.exists()):
            continue
        if resume.was_killed or not file.exists() or not _has_lines(file.read_bytes(), len(counted)):
            record.rewrite(trial, [resume.events[place][2] for place in counted])


def _has_lines(text: bytes, count: int) -> bool:
    return text.count(b"\n") == count and (text.endswith(b"\n") or not text)


def _tell_result(
    plan: Plan, record: Record, past: _Past, trial: Trial, result: dict[str, Any], *, is_decided: bool
) -> bool:
    """Returns whether the trial is paused."""
    result = {**result, "trial_id": trial.trial_id, "config": trial.config}
    record.was_counted(trial)
    trial.last_result = result
    trial.note_metrics({key: value for key, value in result.items() if key != "config"})
    if is_decided:
        return False
    decision = plan.scheduler.on_trial_result(past, trial, result)
    plan.search_alg.on_trial_result(trial.trial_id, result)
    return bool(decision == TrialScheduler.PAUSE)


def _tell_status(plan: Plan, past: _Past, trial: Trial, fields: dict[str, Any]) -> None:
    was_finished, trial.status = trial.is_finished(), fields["status"]
    if was_finished == trial.is_finished():
        return
    if was_finished:
        # An earlier run was told to try it again.
        _again(plan, past, trial)
    elif trial.status == Trial.ERROR:
        trial.error = read_error(Path(str(trial.path))) or TuneError(fields.get("error", "unknown"))
        plan.scheduler.on_trial_error(past, trial)
        plan.search_alg.on_trial_complete(trial.trial_id, trial.last_result or None, error=True)
    else:
        _complete(plan, past, trial)


def _again(plan: Plan, past: _Past, trial: Trial) -> None:
    trial.error = None
    trial.num_failures = 0
    trial.status = Trial.PENDING
    plan.scheduler.on_trial_add(past, trial)


def _complete(plan: Plan, past: _Past, trial: Trial) -> None:
    counters = {"trial_id": trial.trial_id, "training_iteration": 0}
    trial.last_result = {**(trial.last_result or counters), "done": True}
    trial.status = Trial.TERMINATED
    plan.scheduler.on_trial_complete(past, trial, trial.last_result)
    plan.search_alg.on_trial_complete(trial.trial_id, trial.last_result)


def _decide(plan: Plan, record: Record, past: _Past, trial: Trial, resume: Resume) -> bool:
    """Whether and how a trial of the earlier run goes on. Returns whether nothing that it reported counts any more."""
    before = trial.status
    is_forgotten = False
    if trial.status == Trial.ERROR and (resume.errored or resume.restart_errored):
        if resume.restart_errored:
            record.forget(trial)
            is_forgotten = True
        _again(plan, past, trial)
    elif not trial.is_finished():
        if trial.last_result.get("done") or not resume.unfinished:
            # Its end was decided, and the journal ends before it says so; or nobody wants more of it.
            _complete(plan, past, trial)
        elif trial.status != Trial.PAUSED:
            trial.status = Trial.PENDING
    # Whoever watches knows it as one that waits.
    if trial.status != before:
        record.status(trial, Trial.PENDING)
    elif trial.status != Trial.PENDING:
        record.view.on_status(trial, Trial.PENDING, trial.status)
    return is_forgotten
