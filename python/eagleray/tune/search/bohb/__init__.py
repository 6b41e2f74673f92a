"""BOHB's searcher."""

from eagleray.tune.search.bohb.bohb_search import TuneBOHB

__all__ = ["TuneBOHB"]
