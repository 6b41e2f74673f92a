"""HyperBand: halving in rounds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers._brained import BrainedScheduler, found, missing, number, of_reward, require
from eagleray.tune.schedulers._native import Hyperband
from eagleray.tune.schedulers.trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from eagleray.tune.schedulers.trial_scheduler import Controller

#: So many of the trials that are to run are looked at first; nearly always one of them can.
_LOOK_FIRST = 16


class HyperBandScheduler(BrainedScheduler):
    """Runs trials in brackets, many short ones and few long ones, and lets the best of each round go on.

    Who is through with a round is paused until all others in its bracket are. With the defaults a band has brackets of 5 trials that run to 81, of 8
    that are first compared at 27, 15 at 9, 34 at 3 and 81 at 1. The last round of each ends at `max_t`.

    Args:
        time_attr: what counts as time in results; it only has to rise.
        metric: what is compared.
        mode: "min" or "max".
        max_t: trials are stopped at this time.
        reduction_factor: one of so many goes on after each round, and runs so much longer.
        stop_last_trials: whether trials are stopped after the last round.
        reward_attr: the older name of a metric that is to be large.
    """

    _supports_buffered_results = False
    _brains: ClassVar[dict[str, Any]] = {"_brain": Hyperband}
    _largest_first = False

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,  # noqa: FBT001, FBT002
        *,
        reward_attr: str | None = None,
    ) -> None:
        require(max_t > 0, "Max (time_attr) not valid!")
        require(reduction_factor > 1, "Reduction Factor not valid!")
        metric, mode = of_reward(reward_attr, metric, mode)
        require(not mode or mode in ("min", "max"), "`mode` must be 'min' or 'max'!")
        super().__init__(metric=metric, mode=mode, time_attr=time_attr)
        self._max_t = max_t
        self._eta = reduction_factor
        self._stop_last_trials = stop_last_trials

    def _make_brain(self, mode: str, seed: int) -> Hyperband:
        return Hyperband(
            mode=mode,
            max_t=int(self._max_t),
            reduction_factor=float(self._eta),
            stop_last_trials=self._stop_last_trials,
            largest_first=self._largest_first,
        )

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """Pauses it at the end of its round; the last one of a round decides for all."""
        known = self._number(trial)
        if known is None:
            return TrialScheduler.CONTINUE
        time, value = found(result, self._time_attr), found(result, str(self._metric))
        if missing(time):
            raise KeyError(self._time_attr)
        reached = number(time, self._time_attr)
        if missing(value):
            # Only who is compared needs something to be compared by.
            if reached >= self._brain.milestone(known):
                raise KeyError(self._metric)
            value = None
        decision, stop, resume = self._brain.result(known, reached, number(value, str(self._metric)))
        self._apply(controller, stop, resume)
        return str(decision)

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Nobody waits for it any more."""
        self.on_trial_remove(controller, trial)

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """Nobody waits for it any more."""
        self.on_trial_remove(controller, trial)

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """Nobody waits for it any more."""
        known = self._numbers.pop(trial.trial_id, None)
        if known is not None:
            _, stop, resume = self._brain.end(known)
            self._apply(controller, stop, resume)

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """Of the first band that has one, a trial of the bracket that is furthest behind."""
        if self._brain is None:
            return None
        chosen = self._waiting()
        if chosen is None and not any(trial.status == Trial.RUNNING for trial in controller.get_live_trials()):
            _, stop, resume = self._brain.settle()
            self._apply(controller, stop, resume)
            chosen = self._waiting()
        return chosen

    def _waiting(self) -> Trial | None:
        """The first trial that is to run and does not."""
        count = _LOOK_FIRST
        while True:
            listed = self._brain.runnable(count)
            for known in listed:
                trial: Trial = self._trials[known]
                if trial.status in (Trial.PENDING, Trial.PAUSED):
                    return trial
            if len(listed) < count:
                return None
            count *= 4

    def _apply(self, controller: Controller, stop: list[int], resume: list[int]) -> None:
        for known in resume:
            self._on_resume(controller, self._trials[known])
        for known in stop:
            trial = self._trials[known]
            if not trial.is_finished():
                controller.stop_trial(trial)

    def _on_resume(self, controller: Controller, trial: Trial) -> None:
        """A paused trial may run again."""

    def debug_string(self) -> str:
        """How far each bracket is."""
        if self._brain is None:
            return "Using HyperBand: num_stopped=0 total_brackets=0"
        brackets = self._brain.brackets()
        text = f"Using HyperBand: num_stopped={self._brain.stopped()} total_brackets={len(brackets)}"
        shown = -1
        for band, size, milestone, progress, members in brackets:
            if band != shown:
                text += f"\nRound #{band}:"
                shown = band
            counts = Counter(self._trials[known].status for known in members)
            statuses = ", ".join(sorted(f"{status}: {count}" for status, count in counts.items()))
            text += f"\n  Bracket(Max Size (n)={size}, Milestone (r)={milestone}, completed={progress:.1%}): {{{statuses}}} "
        return text

    def state(self) -> dict[str, int]:
        """How many brackets there are and how many trials were cut."""
        if self._brain is None:
            return {"num_brackets": 0, "num_stopped": 0}
        return {"num_brackets": len(self._brain.brackets()), "num_stopped": self._brain.stopped()}
