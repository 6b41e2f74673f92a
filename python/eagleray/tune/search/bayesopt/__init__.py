"""bayesian-optimization as a searcher."""

from eagleray.tune.search.bayesopt.bayesopt_search import BayesOptSearch

__all__ = ["BayesOptSearch"]
