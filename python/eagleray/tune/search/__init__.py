"""Who proposes configurations: grid and random search, native searchers, those of users' packages, and what wraps around them."""

from __future__ import annotations

import inspect
from typing import Any

from eagleray.tune.search._texts import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, UNRESOLVED_SEARCH_SPACE
from eagleray.tune.search.basic_variant import BasicVariantGenerator
from eagleray.tune.search.concurrency_limiter import ConcurrencyLimiter
from eagleray.tune.search.native import CMAESSearch, GPSearch, RandomSearch, SobolSearch, TPESearch
from eagleray.tune.search.repeater import Repeater
from eagleray.tune.search.sample import grid_search
from eagleray.tune.search.search_algorithm import SearchAlgorithm
from eagleray.tune.search.search_generator import SearchGenerator
from eagleray.tune.search.searcher import Searcher

__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "UNRESOLVED_SEARCH_SPACE",
    "BasicVariantGenerator",
    "CMAESSearch",
    "ConcurrencyLimiter",
    "GPSearch",
    "RandomSearch",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "SobolSearch",
    "TPESearch",
    "create_searcher",
    "grid_search",
]

#: Where searchers are, by the names that `create_searcher` knows.
_BY_NAME = {
    "variant_generator": "basic_variant.BasicVariantGenerator",
    "random": "basic_variant.BasicVariantGenerator",
    "sobol": "native.SobolSearch",
    "tpe": "native.TPESearch",
    "cmaes": "native.CMAESSearch",
    "gp": "native.GPSearch",
    "bohb": "bohb.bohb_search.TuneBOHB",
    "optuna": "optuna.optuna_search.OptunaSearch",
    "hyperopt": "hyperopt.hyperopt_search.HyperOptSearch",
    "bayesopt": "bayesopt.bayesopt_search.BayesOptSearch",
    "nevergrad": "nevergrad.nevergrad_search.NevergradSearch",
    "ax": "ax.ax_search.AxSearch",
    "hebo": "hebo.hebo_search.HEBOSearch",
    "zoopt": "zoopt.zoopt_search.ZOOptSearch",
    "skopt": "skopt.skopt_search.SkOptSearch",
}


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """A searcher by its name. Arguments that it does not take are left out."""
    import importlib

    place = _BY_NAME.get(search_alg.lower())
    if place is None:
        raise ValueError(f"The `search_alg` argument must be one of {list(_BY_NAME)}. Got: {search_alg.lower()}")
    module, name = place.rsplit(".", 1)
    searcher = getattr(importlib.import_module(f"eagleray.tune.search.{module}"), name)
    known = inspect.signature(searcher).parameters
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values())
    return searcher(**{key: value for key, value in kwargs.items() if takes_all or key in known})
