"""What searchers around another searcher have in common: whatever they do not care about goes through."""

from __future__ import annotations

import copy
from typing import Any

from eagleray.tune.search.searcher import Searcher, trace_of


class Wrapper(Searcher):
    """A searcher around another one. A subclass has `suggest`, `retrace` and `on_trial_complete`."""

    def __init__(self, searcher: Any) -> None:
        super().__init__()
        self.searcher: Any = searcher

    @property
    def metric(self) -> Any:
        """What its searcher optimises."""
        return self.searcher.metric

    @property
    def mode(self) -> Any:
        """Whether "min" or "max" is better."""
        return self.searcher.mode

    @property
    def seed(self) -> int | None:
        """Its searcher's."""
        return getattr(self.searcher, "seed", None)

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Tells its searcher."""
        return bool(self.searcher.set_search_properties(metric, mode, config, **spec))

    def trace(self) -> Any:
        """Its searcher's."""
        return trace_of(self.searcher)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,  # noqa: FBT001, FBT002
        pruned: bool = False,  # noqa: FBT001, FBT002
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Tells its searcher."""
        self.searcher.add_evaluated_point(parameters, value, error, pruned, intermediate_values)

    def get_state(self) -> dict[str, Any]:
        """Its own state."""
        return copy.deepcopy({key: value for key, value in vars(self).items() if key != "searcher"})

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up its own state."""
        vars(self).update(state)

    def save(self, checkpoint_path: str) -> None:
        """Writes its searcher's state into a file."""
        self.searcher.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Takes its searcher's state up from a file."""
        self.searcher.restore(checkpoint_path)
