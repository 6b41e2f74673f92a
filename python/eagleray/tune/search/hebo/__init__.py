"""HEBO as a searcher."""

from eagleray.tune.search.hebo.hebo_search import HEBOSearch

__all__ = ["HEBOSearch"]
