"""The older place of `eagleray.tune.search.bayesopt`."""

from eagleray.tune.search.bayesopt import BayesOptSearch

__all__ = ["BayesOptSearch"]
