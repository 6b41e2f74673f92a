"""Each suggestion several times, so that the searcher learns from a mean."""

from __future__ import annotations

import copy
import logging
import math
from typing import Any

from eagleray.tune.metrics import look_up
from eagleray.tune.search._wrapper import Wrapper
from eagleray.tune.search.searcher import Searcher, retraced

#: The key under which a configuration says which of its repetitions it is.
TRIAL_INDEX = "__trial_index__"

logger = logging.getLogger(__name__)


class _Group:
    """One suggestion and the scores of those who try it; None: still to come."""

    def __init__(self, primary: str, config: dict[str, Any]) -> None:
        self.primary = primary
        self.config = config
        self.scores: dict[str, float | None] = {}


class Repeater(Wrapper):
    """Tries each suggestion of its searcher `repeat` times and tells it the mean.

    `num_samples` counts all trials; what does not fill a group teaches nothing.

    Args:
        searcher: who suggests. It knows of the first trial of each group only.
        repeat: how many times.
        set_index: whether a configuration gets a key `__trial_index__`, for a seed.
    """

    def __init__(self, searcher: Searcher, repeat: int = 1, set_index: bool = True) -> None:  # noqa: FBT001, FBT002
        super().__init__(searcher)
        self.repeat = repeat
        self._set_index = set_index
        self._group_of: dict[str, _Group] = {}
        self._current: _Group | None = None

    def suggest(self, trial_id: str) -> Any:
        """The current suggestion once more, or a new one if it was tried often enough."""
        return self._next(trial_id, None)

    def trace(self) -> Any:
        """Its searcher's, if that was asked."""
        is_new = self._current is not None and len(self._current.scores) == 1
        return super().trace() if is_new else None

    def retrace(self, trial_id: str, trace: Any) -> Any:
        """What it suggested in an earlier run."""
        return self._next(trial_id, trace)

    def _next(self, trial_id: str, trace: Any) -> Any:
        if self._current is None or len(self._current.scores) >= self.repeat:
            config = retraced(self.searcher, trial_id, trace)
            if config is None or config == Searcher.FINISHED:
                return config
            self._current = _Group(trial_id, copy.deepcopy(config))
        group = self._current
        config = copy.deepcopy(group.config)
        if self._set_index:
            config[TRIAL_INDEX] = len(group.scores)
        group.scores[trial_id] = None
        self._group_of[trial_id] = group
        return config

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Tells its searcher the mean, once all of a group have ended."""
        group = self._group_of.pop(trial_id, None)
        if group is None:
            logger.error("Trial %s not in group; cannot report score. Seen trials: %s", trial_id, list(self._group_of))
            return
        metric = self.searcher.metric
        score = look_up(result or {}, metric) if isinstance(metric, str) else None
        group.scores[trial_id] = math.nan if score is None else float(score)
        scores = list(group.scores.values())
        if len(scores) < self.repeat or None in scores:
            return
        known = [score for score in scores if score is not None and not math.isnan(score)]
        if known:
            mean = sum(known) / len(known)
            self.searcher.on_trial_complete(group.primary, result={self.searcher.metric: mean})
        else:
            self.searcher.on_trial_complete(group.primary, result=None, error=True)
