"""ZOOpt as a searcher."""

from eagleray.tune.search.zoopt.zoopt_search import ZOOptSearch

__all__ = ["ZOOptSearch"]
