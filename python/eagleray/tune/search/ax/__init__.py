"""Ax as a searcher."""

from eagleray.tune.search.ax.ax_search import AxSearch

__all__ = ["AxSearch"]
