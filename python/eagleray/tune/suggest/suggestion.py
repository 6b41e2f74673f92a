"""The older place of `Searcher` and `ConcurrencyLimiter`."""

from eagleray.tune.search import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    UNRESOLVED_SEARCH_SPACE,
    ConcurrencyLimiter,
    Searcher,
    SearchGenerator,
)

__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "UNRESOLVED_SEARCH_SPACE",
    "ConcurrencyLimiter",
    "SearchGenerator",
    "Searcher",
]
