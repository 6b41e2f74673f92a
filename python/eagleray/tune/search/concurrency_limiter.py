"""At most so many trials of a searcher at a time."""

from __future__ import annotations

from typing import Any

from eagleray.tune.search._wrapper import Wrapper
from eagleray.tune.search.searcher import Searcher, retraced


class ConcurrencyLimiter(Wrapper):
    """Asks its searcher for nothing while too many of its trials are under way.

    Args:
        searcher: whose trials are counted.
        max_concurrent: how many there may be.
        batch: whether the searcher hears of results only when all of a batch have ended.
    """

    def __init__(self, searcher: Any, max_concurrent: int, batch: bool = False) -> None:  # noqa: FBT001, FBT002
        if max_concurrent <= 0:
            raise ValueError(f"max_concurrent must be a positive integer, not {max_concurrent!r}")
        if not isinstance(searcher, Searcher):
            text = (
                f"The `ConcurrencyLimiter` only works with `Searcher` objects (got {type(searcher)}). "
                "Please try to pass `max_concurrent` to the search generator directly."
            )
            raise RuntimeError(text)
        super().__init__(searcher)
        self.max_concurrent = max_concurrent
        self.batch = batch
        self.live_trials: set[str] = set()
        self.cached_results: dict[str, tuple[dict[str, Any] | None, bool]] = {}
        self._is_limiting = not searcher.set_max_concurrency(max_concurrent)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Changes the limit."""
        self.max_concurrent = max_concurrent
        return True

    def suggest(self, trial_id: str) -> Any:
        """What its searcher suggests; None if enough is under way."""
        if not self._is_limiting:
            return self.searcher.suggest(trial_id)
        if trial_id in self.live_trials:
            raise ValueError(f"Trial ID {trial_id} must be unique: already found in set.")
        if len(self.live_trials) >= self.max_concurrent:
            return None
        return self._counted(trial_id, self.searcher.suggest(trial_id))

    def retrace(self, trial_id: str, trace: Any) -> Any:
        """What its searcher suggested in an earlier run."""
        return self._counted(trial_id, retraced(self.searcher, trial_id, trace))

    def _counted(self, trial_id: str, suggestion: Any) -> Any:
        if self._is_limiting and suggestion is not None and suggestion != Searcher.FINISHED:
            self.live_trials.add(trial_id)
        return suggestion

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tells its searcher."""
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Tells its searcher, at once or with the rest of the batch."""
        if not self._is_limiting:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            return
        if trial_id not in self.live_trials:
            return
        self.cached_results[trial_id] = (result, error)
        if self.batch and len(self.cached_results) < len(self.live_trials):
            return
        for each, (last, failed) in self.cached_results.items():
            self.searcher.on_trial_complete(each, result=last, error=failed)
            self.live_trials.discard(each)
        self.cached_results = {}

    def on_pause(self, trial_id: str) -> None:
        """Tells its searcher."""
        self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Tells its searcher."""
        self.searcher.on_unpause(trial_id)
