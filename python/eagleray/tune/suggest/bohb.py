"""The older place of `eagleray.tune.search.bohb`."""

from eagleray.tune.search.bohb import TuneBOHB

__all__ = ["TuneBOHB"]
