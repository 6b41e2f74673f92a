"""HyperBand as BOHB wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.tune.schedulers.hyperband import HyperBandScheduler
from eagleray.tune.schedulers.trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial
    from eagleray.tune.schedulers.trial_scheduler import Controller


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand that fills the bracket with the most trials first and waits until it is full.

    So a searcher such as BOHB's learns from whole rounds. It is told of each pause by `on_pause(trial_id)` and `on_unpause(trial_id)`, if it has
    these, and finds the time at which a trial is compared in `result["hyperband_info"]["budget"]`. Arguments are those of `HyperBandScheduler`.
    """

    _largest_first = True

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """Pauses it at the end of its round, also while the bracket is not full."""
        result["hyperband_info"] = {}
        known = self._number(trial)
        milestone = None if known is None else self._brain.milestone(known)
        decision = super().on_trial_result(controller, trial, result)
        if decision != TrialScheduler.CONTINUE or (known is not None and self._brain.milestone(known) != milestone):
            result["hyperband_info"]["budget"] = milestone
        if decision == TrialScheduler.PAUSE:
            _tell(controller, "on_pause", trial)
        return decision

    def _on_resume(self, controller: Controller, trial: Trial) -> None:
        _tell(controller, "on_unpause", trial)


def _tell(controller: Controller, what: str, trial: Trial) -> None:
    search = getattr(controller, "search_alg", None)
    heard = getattr(getattr(search, "searcher", search), what, None)
    if heard is not None:
        heard(trial.trial_id)
