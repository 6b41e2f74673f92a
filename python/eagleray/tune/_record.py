"""What an experiment leaves behind: its journal, the files of its trials, what callbacks and the screen are told.

The engine says what happens; here it is written down. Nothing is decided here.
"""

from __future__ import annotations

import base64
import contextlib
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle
from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune._checkpoints import Checkpoints, persist
from eagleray.tune._session import TrialSpec
from eagleray.tune.error import TuneError
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.metrics import look_up
from eagleray.tune.result import DEFAULT_METRIC

if TYPE_CHECKING:
    from eagleray.tune._console.view import View
    from eagleray.tune._engine import Engine
    from eagleray.tune._live import Live
    from eagleray.tune._plan import Plan
    from eagleray.tune.execution.placement_groups import PlacementGroupFactory

#: Names of folders are cut to so much.
_NAME_MAX = 120
#: What a trial that goes on from a checkpoint counts on from.
_COUNTERS = ("training_iteration", "time_total_s", "timesteps_total", "episodes_total")


def _is_chdir() -> bool:
    return os.environ.get("RAY_CHDIR_TO_TRIAL_DIR", "1") != "0"


def _pickled(value: Any) -> str:
    return base64.b64encode(cloudpickle.dumps(value)).decode()


class Record:
    """All that is written about one experiment."""

    def __init__(self, plan: Plan, journal: Any, logs: Any, view: View, experiment_id: str) -> None:
        self.plan = plan
        self.journal = journal
        self._logs = logs
        self._id = experiment_id
        self._callbacks = plan.callbacks
        self.view = view
        #: Lies in the experiment's folder while it runs.
        self.mark: str | None = None
        self._iteration = 0
        self._trials: list[Trial] = []
        #: Of each trial: the iterations that count, its checkpoints.
        self._counted: dict[str, int] = {}
        self._kept: dict[str, Checkpoints] = {}
        #: Of each checkpoint: how far the trial was.
        self._at: dict[str, dict[str, Any]] = {}
        #: Trials that may have more checkpoints than are kept.
        self._full: dict[str, Trial] = {}
        #: What a result that is being taken up has brought about so far.
        self._deferred: list[tuple[str, dict[str, Any]]] | None = None
        self._taken: Trial | None = None
        self._second = 0
        self._date = ""

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        """Into the journal; what a result brings about stands behind it."""
        if self._deferred is None:
            self.journal.append(kind, fields)
        else:
            self._deferred.append((kind, fields))

    # The experiment.

    def begin(self, engine: Engine) -> None:
        """The experiment runs from here on."""
        self._trials = engine.trials
        for callback in self._callbacks:
            callback.setup(stop=self.plan.stopper, num_samples=self.plan.num_samples, total_num_samples=self._total())
        self.view.start()

    def _total(self) -> int | None:
        total = self.plan.search_alg.total_samples
        return total if total > 0 else None

    def round_begins(self, iteration: int, trials: list[Trial]) -> None:
        """Another round of the engine."""
        self._iteration = iteration
        for callback in self._callbacks:
            callback.on_step_begin(iteration=iteration, trials=trials)

    def round_ends(self, iteration: int, trials: list[Trial]) -> None:
        """A round is over."""
        for callback in self._callbacks:
            callback.on_step_end(iteration=iteration, trials=trials)
        self.view.refresh()

    def end(self, trials: list[Trial], state: str) -> None:
        """The experiment runs no longer, whether it is over or not."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.journal.close)
            if self._logs is not None:
                stack.callback(self._logs.close)
            stack.callback(self.view.close, state)
            # In their order, and also if there is no room for what is left to write.
            for callback in reversed(self._callbacks):
                stack.callback(callback.on_experiment_end, trials=trials)
            self.flush()

    def flush(self) -> None:
        """Whatever was told so far is in the files now."""
        self.journal.flush()
        if self._logs is not None:
            self._logs.flush()
        # A checkpoint goes only when the journal knows of a later one.
        while self._full:
            _, trial = self._full.popitem()
            kept = self._checkpoints(trial)
            if kept.sweep():
                trial.best_checkpoints = kept.best()

    def warn(self, text: str) -> None:
        """Something that the user should know, and that stops nothing."""
        # Where it was noticed says nothing to the user.
        warnings.warn_explicit(text, UserWarning, "eagleray.tune", 0)

    # Trials.

    def trial_id(self, number: int) -> str:
        """The id of the trial of this number, the same in every run of the experiment."""
        return f"{self._id}_{number:05d}"

    def new_trial(self, number: int, trial_id: str, suggestion: Any) -> Trial:
        """A trial is made of what was proposed."""
        return self.make_trial(
            number, trial_id, suggestion.config, suggestion.evaluated_params, suggestion.experiment_tag
        )

    def added(self, trial: Trial, trace: Any) -> None:
        """The scheduler has heard of the trial, and filled in what its configuration lacked."""
        fields = {
            "number": trial.number,
            "id": trial.trial_id,
            "tag": trial.experiment_tag,
            "params": trial.evaluated_params,
            "folder": trial.path.name if trial.path else None,
            "config": trial.config,
            "pickle": _pickled((trial.config, trial.evaluated_params)),
        }
        if trace is not None:
            fields["trace"] = _pickled(trace)
        self._note("trial", fields)

    def make_trial(
        self,
        number: int,
        trial_id: str,
        config: dict[str, Any],
        chosen: dict[str, Any],
        tag: str,
        folder: str | None = None,
    ) -> Trial:
        """The trial itself, new or from the journal."""
        plan = self.plan
        trial = Trial(
            plan.trainable_name,
            number=number,
            trial_id=trial_id,
            config=config,
            evaluated_params=chosen,
            experiment_tag=tag,
        )
        if plan.trial_name is not None:
            trial.custom_name = str(plan.trial_name(trial))
        if folder is None:
            date = time.strftime("%Y-%m-%d_%H-%M-%S")
            name = (
                plan.trial_dirname(trial)
                if plan.trial_dirname is not None
                else f"{trial}_{tag}"[:_NAME_MAX] + f"_{date}"
            )
            folder = str(name).replace("/", "_")
        trial.path = plan.folder / folder
        trial.checkpoint = None if plan.restore_from is None else Checkpoint.from_directory(plan.restore_from)
        self.view.on_status(trial, None, trial.status)
        return trial

    def spec_of(self, trial: Trial, factory: PlacementGroupFactory, ahead: int = 1) -> TrialSpec:
        """What the trial's process is told."""
        at: dict[str, Any] = {}
        if trial.checkpoint is not None:
            at = self._at.get(str(trial.checkpoint.path), {})
        return TrialSpec(
            trial_id=trial.trial_id,
            trial_name=str(trial),
            experiment_name=self.plan.name,
            number=trial.number,
            config=trial.config,
            path=None if trial.path is None else str(trial.path),
            resources=factory,
            checkpoint=None if trial.checkpoint is None else str(trial.checkpoint.path),
            iteration=at.get("count", 0),
            time_total=at.get("time_total_s", 0.0),
            timesteps_total=at.get("timesteps_total"),
            episodes_total=at.get("episodes_total"),
            checkpoint_next=self._checkpoints(trial).next_number,
            chdir=_is_chdir(),
            log_to_file=self.plan.log_to_file,
            mark=self.mark,
            ahead=ahead,
        )

    def status(self, trial: Trial, old: str) -> None:
        """A trial's status has changed."""
        fields: dict[str, Any] = {"number": trial.number, "status": trial.status}
        if trial.status == Trial.ERROR and trial.error is not None:
            fields["error"] = f"{type(trial.error).__name__}: {trial.error}"[:2_000]
        self._note("status", fields)
        self.view.on_status(trial, old, trial.status)

    def started(self, trial: Trial, about: dict[str, Any]) -> None:
        """A trial's process has begun."""
        if self._logs is not None:
            self._logs.start(trial)
        what = "on_trial_start" if trial.checkpoint is None else "on_trial_restore"
        self._tell(what, trial)

    def empty_result(self, live: Live) -> dict[str, Any]:
        """Of a trial that has reported nothing."""
        return {**self.static(live), "done": True, "training_iteration": 0}

    def static(self, live: Live) -> dict[str, Any]:
        """What all results of one run of a trial carry."""
        if live.static is None:
            trial = live.trial
            live.static = {
                "trial_id": trial.trial_id,
                **live.about,
                "config": trial.config,
                "experiment_tag": trial.experiment_tag,
            }
        return live.static

    def is_new(self, trial: Trial, count: int) -> bool:
        """Whether a trial's result of this number was not taken up before. A trial that was restarted reports some again."""
        if count <= self._counted.get(trial.trial_id, 0):
            return False
        self._counted[trial.trial_id] = count
        return True

    def was_counted(self, trial: Trial) -> None:
        """A result stands in the journal."""
        self._counted[trial.trial_id] = self._counted.get(trial.trial_id, 0) + 1

    def complete(self, live: Live, metrics: dict[str, Any]) -> dict[str, Any]:
        """A result with all that it carries."""
        second = metrics.get("timestamp") or int(time.time())
        if second != self._second:
            self._second = second
            self._date = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(second))
        metrics["date"] = self._date
        return {**metrics, **self.static(live)}

    def taking(self, trial: Trial) -> None:
        """A trial's result is about to be decided on."""
        self._deferred = []
        self._taken = trial

    def result(self, live: Live, metrics: dict[str, Any], result: dict[str, Any], *, is_decided: bool) -> None:
        """A result counts. `is_decided`: the scheduler was not asked."""
        trial = live.trial
        deferred, self._deferred = self._deferred or [], None
        self._taken = None
        if is_decided:
            self._note("ends", {"number": trial.number})
        trial.note_metrics(metrics)
        metrics["done"] = result["done"]
        line = self._logs.result(trial, metrics, self.static(live))
        self.journal.append_result(trial.number, line)
        for kind, fields in deferred:
            self._note(kind, fields)
        for callback in self._callbacks:
            callback.on_trial_result(iteration=self._iteration, trials=self._trials, trial=trial, result=result)
        self.view.on_result(trial)

    def check_metrics(self, result: dict[str, Any], plan: Plan, scheduler: Any) -> None:
        """Refuses to go on if what is optimised is not reported at all."""
        if os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") == "1":
            return
        wanted = {
            "tune.TuneConfig()": plan.metric,
            type(scheduler).__name__: getattr(scheduler, "metric", None),
            type(plan.search_alg).__name__: plan.search_alg.metric,
        }
        for who, metric in wanted.items():
            names = metric if isinstance(metric, list) else [metric]
            for name in names:
                if name and name != DEFAULT_METRIC and look_up(result, name) is None:
                    known = ", ".join(sorted(key for key, value in result.items() if isinstance(value, int | float)))
                    raise TuneError(
                        f"Trial returned a result which did not include the specified metric(s) `{name}` that `{who}` expects. "
                        f"It has: {known}. Set TUNE_DISABLE_STRICT_METRIC_CHECKING=1 to go on without."
                    )

    # Checkpoints.

    def _checkpoints(self, trial: Trial) -> Checkpoints:
        kept = self._kept.get(trial.trial_id)
        if kept is None:
            kept = self._kept[trial.trial_id] = Checkpoints(self.plan.checkpoint)
        return kept

    def checkpoint_path(self, trial: Trial) -> str:
        """Where a trial's next checkpoint goes."""
        return str(Path(trial.path or ".") / f"checkpoint_{self._checkpoints(trial).next_number:06d}")

    def checkpointed(
        self,
        trial: Trial,
        path: str,
        metrics: dict[str, Any],
        count: int,
        *,
        is_ahead: bool = False,
        is_told_again: bool = False,
    ) -> None:
        """A trial has made a checkpoint after so many results."""
        trial.checkpoint = Checkpoint.from_directory(path)
        at = self._at[path] = {"count": count} | {key: metrics[key] for key in _COUNTERS if key in metrics}
        fields = {"number": trial.number, "folder": os.path.basename(path), "at": at}
        if is_told_again:
            # The result that it belongs to is not in front of it in the journal.
            fields["metrics"] = metrics
        if is_ahead or trial is self._taken:
            # Who decides on the result finds it, also when that is told again.
            self.journal.append("checkpoint", {**fields, "ahead": True})
        else:
            self._note("checkpoint", fields)
        self._keep(trial, path, {**metrics})
        self._tell("on_checkpoint", trial, checkpoint=trial.checkpoint)
        self._tell("on_trial_save", trial)

    def leaves(self, trial: Trial) -> None:
        """A trial is taken off its process, which may be about to write a checkpoint unless it waits for us: nobody else gets that number."""
        if trial is not self._taken:
            self._checkpoints(trial).next_number += 1

    def restore_checkpoint(self, trial: Trial, fields: dict[str, Any], metrics: dict[str, Any] | None = None) -> None:
        """A checkpoint of an earlier run, if it is still there."""
        path = Path(trial.path or ".") / fields["folder"]
        self._checkpoints(trial).count(path.name)
        if path.is_dir():
            trial.checkpoint = Checkpoint.from_directory(str(path))
            self._at[str(path)] = fields["at"]
            self._keep(trial, str(path), {**(metrics or fields.get("metrics") or trial.last_result)})

    def restore_exploit(self, trial: Trial, fields: dict[str, Any]) -> None:
        """In an earlier run the trial went on from another one's checkpoint."""
        trial.checkpoint = None
        if fields["checkpoint"] is not None:
            self.restore_checkpoint(trial, {**fields, "folder": fields["checkpoint"]})
        self._counted[trial.trial_id] = fields["at"].get("count", 0)

    def _keep(self, trial: Trial, path: str, metrics: dict[str, Any]) -> None:
        kept = self._checkpoints(trial)
        kept.add(path, metrics, sweep=False)
        self._full[trial.trial_id] = trial
        trial.best_checkpoints = kept.best()

    def rewrite(self, trial: Trial, results: list[dict[str, Any]]) -> None:
        """The files of a trial are made anew."""
        if self._logs is not None:
            self._logs.rewrite(trial, results)

    def forget(self, trial: Trial) -> None:
        """The trial begins from scratch: nothing that it reported counts."""
        self.forgotten(trial)
        self._note("forget", {"number": trial.number})

    def forgotten(self, trial: Trial) -> None:
        """As `forget`, of an earlier run."""
        self._counted.pop(trial.trial_id, None)
        trial.checkpoint = None
        trial.last_result = {}
        trial.metric_analysis = {}

    def exploited(self, trial: Trial, donor: Trial) -> None:
        """A trial goes on from another one's checkpoint."""
        checkpoint = donor.checkpoint
        at: dict[str, Any] = {}
        metrics: dict[str, Any] = {}
        if checkpoint is not None:
            at = self._at.get(str(checkpoint.path), {})
            metrics = self._checkpoints(donor).metrics_of(str(checkpoint.path)) or {}
            # Its own copy: the donor goes on, and keeps only so many.
            path = persist(str(checkpoint.path), trial.path or ".", self._checkpoints(trial).next_number)
            checkpoint = Checkpoint.from_directory(path)
            self._at[path] = at
            self._keep(trial, path, metrics)
        trial.checkpoint = checkpoint
        # From here on it is another history.
        self._counted[trial.trial_id] = at.get("count", 0)
        fields = {
            "number": trial.number,
            "donor": donor.number,
            "checkpoint": None if checkpoint is None else os.path.basename(checkpoint.path),
            "at": at,
            "metrics": metrics,
            "config": trial.config,
            "pickle": _pickled(trial.config),
        }
        self._note("exploit", fields)

    # Ends.

    def failed(self, trial: Trial, error: BaseException, text: str, *, is_final: bool) -> None:
        """A trial's code has raised, or its process died."""
        self._note("failure", {"number": trial.number, "error": f"{type(error).__name__}: {error}"[:2_000]})
        if self._logs is not None:
            self._logs.failed(trial, error, text)
        if not is_final:
            self.view.on_retry(trial, self.plan.failure.max_failures)
        self._tell("on_trial_error" if is_final else "on_trial_recover", trial)

    def ended(self, trial: Trial) -> None:
        """Nothing more comes of a trial."""
        if self._logs is not None:
            self._logs.end(trial)
        if trial.status == Trial.TERMINATED:
            self._tell("on_trial_complete", trial)

    def _tell(self, what: str, trial: Trial, **more: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, what)(iteration=self._iteration, trials=self._trials, trial=trial, **more)
