"""What every scheduler is, and what it may ask of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eagleray import cloudpickle
from eagleray.tune.experiment.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where a bare number that a trial reports is found.
DEFAULT_METRIC = "_metric"


class Controller(Protocol):
    """What schedulers see of the engine.

    The engine calls a scheduler between two results, never at the same time. While a scheduler's `on_trial_result` runs, the trial that reported is
    RUNNING, and `trial.last_result` may be the result before. Before `choose_trial_to_run` the engine has added a new trial if its searcher has one
    and none is PENDING: some schedulers wait for trials that are still to come.

    A scheduler is brought back by telling a fresh one all that it was told, in order, also the results after which it ended a trial. Meanwhile the
    controller's `is_replaying` is true, what is asked of it is passed over, and a trial's status, checkpoint and config are what they were then: what
    follows from a result, such as an exploit, comes after the result.
    """

    #: All trials, in the order in which they were added.
    trials: Sequence[Trial]
    #: Who proposes configurations.
    search_alg: Any

    def get_trials(self) -> Sequence[Trial]:
        """All trials."""
        ...

    def get_live_trials(self) -> Sequence[Trial]:
        """Those that have not ended."""
        ...

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:  # noqa: FBT001, FBT002
        """Takes a trial off its place. It goes on from its latest checkpoint when it is chosen again."""
        ...

    def stop_trial(self, trial: Trial) -> None:
        """Ends a trial, whether it runs or not; `on_trial_complete` or `on_trial_remove` follows."""
        ...

    def save_trial(self, trial: Trial) -> None:
        """Makes a checkpoint of a trial now. `trial.checkpoint` is the latest then; of a function, the latest that it reported."""
        ...

    def exploit(self, trial: Trial, config: dict[str, Any], donor: Trial) -> None:
        """The trial goes on from `donor.checkpoint` with this configuration, whether it ran or not.

        It waits, PENDING or PAUSED, until it is chosen. A scheduler that does this to the trial that has just reported returns NOOP.
        """
        ...

    def update_trial_resources(self, trial: Trial, resources: Any) -> None:
        """The trial has these when it is started next: a dict such as `{"CPU": 2}`, or what stands for one."""
        ...


class TrialScheduler:
    """Decides which trials go on. Subclass it, or `FIFOScheduler`, for one of your own."""

    #: The trial trains on.
    CONTINUE = "CONTINUE"
    #: The trial gives its place up; it may be chosen again.
    PAUSE = "PAUSE"
    #: The trial has ended.
    STOP = "STOP"
    #: The scheduler has already told the controller what becomes of the trial.
    NOOP = "NOOP"

    _metric: str | None = None
    _mode: str | None = None
    _supports_buffered_results = True

    @property
    def metric(self) -> str | None:
        """What it looks at."""
        return self._metric

    @property
    def mode(self) -> str | None:
        """Which end of it is good."""
        return self._mode

    @property
    def supports_buffered_results(self) -> bool:
        """Whether several results of a trial may be told at once, after the fact."""
        return self._supports_buffered_results

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Takes metric and mode of the experiment over. False if the scheduler has its own already."""
        if self._metric and metric:
            return False
        if metric:
            self._metric = metric
        if self._metric is None:
            self._metric = DEFAULT_METRIC
        return True

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """A trial is new."""
        raise NotImplementedError

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """A trial has failed for good."""
        raise NotImplementedError

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """A trial has reported; returns what it does now."""
        raise NotImplementedError

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has ended, by itself or by a decision. `result` is its last one."""
        raise NotImplementedError

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """A trial that was not running is taken away."""
        raise NotImplementedError

    def needs_together(self, population: int | None, together: int) -> str | None:
        """What to tell a user who lets only so many trials of a population (None: without end) be under way; None: nothing."""
        return None

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """The PENDING or PAUSED trial that runs next, if any. Asking twice gives the same."""
        raise NotImplementedError

    def debug_string(self) -> str:
        """A line or some for people."""
        raise NotImplementedError

    def save(self, checkpoint_path: str) -> None:
        """Writes its state to a file."""
        raise NotImplementedError

    def restore(self, checkpoint_path: str) -> None:
        """Takes its state from a file."""
        raise NotImplementedError


class FIFOScheduler(TrialScheduler):
    """Trials run in the order in which they came, each to its end."""

    #: So many trials, from this one on, have ended.
    _first: str | None = None
    _ended = 0

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """Nothing to note."""

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """Nothing to note."""

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """It goes on."""
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Nothing to note."""

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """Nothing to note."""

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """The first that has not run yet, else the first that was paused."""
        trials = controller.get_trials()
        # Trials end more or less in their order: those that all have ended are passed over for good. The next experiment begins anew.
        if trials and self._first != trials[0].trial_id:
            self._first, self._ended = trials[0].trial_id, 0
        while self._ended < len(trials) and trials[self._ended].is_finished():
            self._ended += 1
        paused = None
        for place in range(self._ended, len(trials)):
            status = trials[place].status
            if status == Trial.PENDING:
                return trials[place]
            if paused is None and status == Trial.PAUSED:
                paused = trials[place]
        return paused

    def debug_string(self) -> str:
        """Its name."""
        return "Using FIFO scheduling algorithm."

    def save(self, checkpoint_path: str) -> None:
        """Writes its state to a file."""
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self.__getstate__()))

    def restore(self, checkpoint_path: str) -> None:
        """Takes its state from a file."""
        state = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        # An object without attributes has no state.
        self.__setstate__(state or {})

    def __getstate__(self) -> Any:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
