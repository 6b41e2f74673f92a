"""HyperOpt as a searcher."""

from eagleray.tune.search.hyperopt.hyperopt_search import HyperOptSearch

__all__ = ["HyperOptSearch"]
