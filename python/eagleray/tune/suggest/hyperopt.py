"""The older place of `eagleray.tune.search.hyperopt`."""

from eagleray.tune.search.hyperopt import HyperOptSearch

__all__ = ["HyperOptSearch"]
