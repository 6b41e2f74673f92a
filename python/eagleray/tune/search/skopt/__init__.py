"""scikit-optimize as a searcher: Ray has it no more, and libraries still import it."""

from eagleray.tune.search.skopt.skopt_search import SkOptSearch

__all__ = ["SkOptSearch"]
