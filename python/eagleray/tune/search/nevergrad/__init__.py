"""Nevergrad as a searcher."""

from eagleray.tune.search.nevergrad.nevergrad_search import NevergradSearch

__all__ = ["NevergradSearch"]
