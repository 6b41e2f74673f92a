"""The median stopping rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers._brained import BrainedScheduler, of_reward, require
from eagleray.tune.schedulers._native import Median
from eagleray.tune.schedulers.trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from eagleray.tune.schedulers.trial_scheduler import Controller


class MedianStoppingRule(BrainedScheduler):
    """Stops a trial whose best value so far is worse than the median of the others' means up to the same time.

    Args:
        time_attr: what counts as time in results; it only has to rise.
        metric: what is compared.
        mode: "min" or "max".
        grace_period: nobody is stopped before this time, and nothing before it counts.
        min_samples_required: how many others must have come as far.
        min_time_slice: while there are too few to compare with, a trial makes room for others after this time.
        hard_stop: if False, bad trials are only paused, and run when nothing else is left.
        reward_attr: the older name of a metric that is to be large.
    """

    _brains: ClassVar[dict[str, Any]] = {"_brain": Median}

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,  # noqa: FBT001, FBT002
        *,
        reward_attr: str | None = None,
    ) -> None:
        metric, mode = of_reward(reward_attr, metric, mode)
        require(not mode or mode in ("min", "max"), "`mode` must be 'min' or 'max'.")
        super().__init__(metric=metric, mode=mode, time_attr=time_attr)
        self._grace_period = grace_period
        self._min_samples_required = min_samples_required
        self._min_time_slice = min_time_slice
        self._hard_stop = hard_stop

    def _make_brain(self, mode: str, seed: int) -> Median:
        return Median(
            mode=mode,
            grace_period=float(self._grace_period),
            min_samples_required=int(self._min_samples_required),
            min_time_slice=float(self._min_time_slice),
            hard_stop=self._hard_stop,
        )

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """Stops or pauses it if it is too bad. A result without time or metric decides nothing."""
        known, observed = self._number(trial), self._observed(result)
        if known is None or observed is None:
            return TrialScheduler.CONTINUE
        decision = self._brain.result(known, *observed)
        if decision is not None:
            return str(decision)
        # Others get their turn, so that there is something to compare with.
        if any(other.status in (Trial.PENDING, Trial.PAUSED) for other in controller.get_live_trials()):
            return str(self._brain.make_room(known, observed[0]))
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Others are compared with what it came to."""
        known, observed = self._number(trial), self._observed(result)
        if known is not None and observed is not None:
            self._brain.complete(known, *observed)

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """As FIFO; those that were found too bad come last."""
        paused: list[tuple[bool, int, Trial]] = []
        for place, trial in enumerate(controller.get_live_trials()):
            if trial.status == Trial.PENDING:
                return trial
            if trial.status == Trial.PAUSED:
                known = self._number(trial)
                paused.append((known is not None and self._brain.is_judged(known), place, trial))
        return min(paused)[2] if paused else None

    def debug_string(self) -> str:
        """How many were found too bad."""
        return f"Using MedianStoppingRule: num_stopped={0 if self._brain is None else self._brain.stopped()}."
