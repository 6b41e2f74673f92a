"""The older place of `eagleray.tune.search.ax`."""

from eagleray.tune.search.ax import AxSearch

__all__ = ["AxSearch"]
