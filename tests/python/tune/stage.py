"""An engine in a few lines: trials that report from a table, so that schedulers can be watched without processes."""

from __future__ import annotations

import dataclasses
from typing import Any

from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers.trial_scheduler import TrialScheduler


@dataclasses.dataclass(frozen=True)
class Saved:
    """A checkpoint: who made it, and after how many iterations."""

    trial_id: str
    iteration: int


class Stage:
    """Does what a controller must, with a number of places. Every call that changes a trial is noted in `events`."""

    def __init__(self, scheduler: TrialScheduler, places: int = 4, folder: Any = None, search_alg: Any = None):
        self.scheduler = scheduler
        self.places = places
        self.folder = folder
        self.search_alg = search_alg
        self.trials: list[Trial] = []
        self.iterations: dict[str, int] = {}
        self.events: list[tuple[Any, ...]] = []
        self.told: list[tuple[str, Trial, dict[str, Any] | None]] = []
        self.is_replaying = False

    # What schedulers ask for.

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return [trial for trial in self.trials if not trial.is_finished()]

    def pause_trial(self, trial, should_checkpoint=True):
        assert not trial.is_finished()
        if should_checkpoint:
            self.save_trial(trial)
        trial.status = Trial.PAUSED
        self.events.append(("pause", trial.trial_id))

    def stop_trial(self, trial):
        assert not trial.is_finished()
        self.events.append(("stop", trial.trial_id))
        self._end(trial, Trial.TERMINATED)

    def save_trial(self, trial):
        trial.checkpoint = Saved(trial.trial_id, self.iterations[trial.trial_id])
        self.events.append(("save", trial.trial_id))

    def exploit(self, trial, config, donor):
        assert donor.checkpoint is not None
        trial.config = config
        trial.checkpoint = donor.checkpoint
        self.iterations[trial.trial_id] = donor.checkpoint.iteration
        trial.status = Trial.PAUSED
        self.events.append(("exploit", trial.trial_id, donor.trial_id))

    def update_trial_resources(self, trial, resources):
        trial.resources = resources
        self.events.append(("resources", trial.trial_id, resources))

    # What tests do.

    def add(self, config=None, tag=None, resources=None):
        number = len(self.trials)
        path = None if self.folder is None else self.folder / f"trial_{number}"
        trial = Trial(
            "fn",
            number=number,
            trial_id=f"t{number:03}",
            config={} if config is None else config,
            experiment_tag=tag or str(number),
            resources=resources,
            path=path,
        )
        self.trials.append(trial)
        self.iterations[trial.trial_id] = 0
        self.told.append(("add", trial, None))
        self.scheduler.on_trial_add(self, trial)
        return trial

    def report(self, trial, **metrics):
        """The trial reports, once more, and the decision is carried out."""
        assert trial.status in (Trial.RUNNING, Trial.PENDING, Trial.PAUSED), trial.status
        trial.status = Trial.RUNNING
        self.iterations[trial.trial_id] += 1
        result = {"training_iteration": self.iterations[trial.trial_id], **metrics}
        self.iterations[trial.trial_id] = result["training_iteration"]
        trial.last_result = result
        self.told.append(("result", trial, result))
        decision = self.scheduler.on_trial_result(self, trial, result)
        if decision == TrialScheduler.STOP:
            self._end(trial, Trial.TERMINATED)
        elif decision == TrialScheduler.PAUSE:
            self.pause_trial(trial)
        return decision

    def _end(self, trial, status):
        trial.status = status
        if status == Trial.ERROR:
            self.told.append(("error", trial, None))
            self.scheduler.on_trial_error(self, trial)
        else:
            self.told.append(("complete", trial, trial.last_result))
            self.scheduler.on_trial_complete(self, trial, trial.last_result)

    def fail(self, trial):
        self._end(trial, Trial.ERROR)

    def finish(self, trial):
        self._end(trial, Trial.TERMINATED)

    def run(self, value, rounds=100_000, end_at=None):
        """Runs everything to its end. `value(trial, iteration)` is what a trial reports. Returns how many results there were."""
        count = 0
        for _ in range(rounds):
            while sum(trial.status == Trial.RUNNING for trial in self.trials) < self.places:
                chosen = self.scheduler.choose_trial_to_run(self)
                if chosen is None:
                    break
                assert chosen.status in (Trial.PENDING, Trial.PAUSED)
                chosen.status = Trial.RUNNING
            running = [trial for trial in self.trials if trial.status == Trial.RUNNING]
            if not running:
                break
            for trial in running:
                if trial.status != Trial.RUNNING:
                    continue
                count += 1
                iteration = self.iterations[trial.trial_id] + 1
                self.report(trial, score=value(trial, iteration))
                if trial.status == Trial.RUNNING and end_at is not None and iteration >= end_at:
                    self.finish(trial)
        assert all(trial.is_finished() for trial in self.trials), "it hangs"
        return count
