"""The older place of `eagleray.tune.search.skopt`."""

from eagleray.tune.search.skopt import SkOptSearch

__all__ = ["SkOptSearch"]
