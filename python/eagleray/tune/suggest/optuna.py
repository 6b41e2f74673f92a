"""The older place of `eagleray.tune.search.optuna`."""

from eagleray.tune.search.optuna import OptunaSearch

__all__ = ["OptunaSearch"]
