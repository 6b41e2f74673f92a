"""The older place of `eagleray.tune.search.search_algorithm`."""

from eagleray.tune.search.search_algorithm import SearchAlgorithm

__all__ = ["SearchAlgorithm"]
