"""Optuna's samplers as a searcher."""

from eagleray.tune.search.optuna.optuna_search import OptunaSearch

__all__ = ["OptunaSearch"]
