"""The older place of `eagleray.tune.search.nevergrad`."""

from eagleray.tune.search.nevergrad import NevergradSearch

__all__ = ["NevergradSearch"]
