"""Asynchronous successive halving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.tune.schedulers._brained import BrainedScheduler, of_reward, require
from eagleray.tune.schedulers._native import Asha
from eagleray.tune.schedulers.trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial
    from eagleray.tune.schedulers.trial_scheduler import Controller


class AsyncHyperBandScheduler(BrainedScheduler):
    """Stops a trial at `grace_period`, and at each `reduction_factor` times that, unless it is among the best that came so far.

    A trial that reports past several rungs at once is compared at the highest of them, and at no other.

    Args:
        time_attr: what counts as time in results; it only has to rise.
        metric: what is compared.
        mode: "min" or "max".
        max_t: trials are stopped at this time.
        grace_period: nobody is stopped before this time.
        reduction_factor: one of so many goes on at each rung.
        brackets: ladders of rungs, each beginning one higher; trials are spread over them by chance.
        stop_last_trials: whether trials are stopped at `max_t`.
        seed: chance comes from here, by default from the first trial's id.
        reward_attr: the older name of a metric that is to be large.
    """

    _brains: ClassVar[dict[str, Any]] = {"_brain": Asha}

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,  # noqa: FBT001, FBT002
        *,
        seed: int | None = None,
        reward_attr: str | None = None,
    ) -> None:
        require(max_t > 0, "Max (time_attr) not valid!")
        require(max_t >= grace_period, "grace_period must be <= max_t!")
        require(grace_period > 0, "grace_period must be positive!")
        require(reduction_factor > 1, "Reduction Factor not valid!")
        require(brackets > 0, "brackets must be positive!")
        metric, mode = of_reward(reward_attr, metric, mode)
        require(not mode or mode in ("min", "max"), "`mode` must be 'min' or 'max'!")
        super().__init__(metric=metric, mode=mode, time_attr=time_attr, seed=seed)
        self._reduction_factor = reduction_factor
        self._max_t = max_t
        self._grace_period = grace_period
        self._bracket_count = brackets
        self._stop_last_trials = stop_last_trials

    def _make_brain(self, mode: str, seed: int) -> Asha:
        return Asha(
            mode=mode,
            max_t=float(self._max_t),
            grace_period=float(self._grace_period),
            reduction_factor=float(self._reduction_factor),
            brackets=self._bracket_count,
            stop_last_trials=self._stop_last_trials,
            seed=seed,
        )

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """Stops it if it is too bad for its rung or as old as may be. A result without time or metric decides nothing."""
        known, observed = self._number(trial), self._observed(result)
        if known is None or observed is None:
            return TrialScheduler.CONTINUE
        return str(self._brain.result(known, *observed))

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Others are compared with what it came to."""
        known, observed = self._numbers.pop(trial.trial_id, None), self._observed(result)
        if known is not None and observed is not None:
            self._brain.complete(known, *observed)

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """What it reported stays."""
        self._numbers.pop(trial.trial_id, None)

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """What it reported stays."""
        self._numbers.pop(trial.trial_id, None)

    def debug_string(self) -> str:
        """How many were stopped, and what it takes to go on at each rung."""
        if self._brain is None:
            return "Using AsyncHyperBand: num_stopped=0"
        lines = [f"Using AsyncHyperBand: num_stopped={self._brain.stopped()}"]
        for rungs in self._brain.cutoffs():
            shown = " | ".join(f"Iter {milestone:.3f}: {cutoff}" for milestone, cutoff in rungs)
            lines += [f"Bracket: {shown}"]
        return "\n".join(lines)


ASHAScheduler = AsyncHyperBandScheduler
