"""The older place of `eagleray.tune.search.zoopt`."""

from eagleray.tune.search.zoopt import ZOOptSearch

__all__ = ["ZOOptSearch"]
