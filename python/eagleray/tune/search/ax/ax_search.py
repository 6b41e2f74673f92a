"""Ax's experiments as a searcher, for those who have it installed."""

from __future__ import annotations

import importlib
from typing import Any

from eagleray.tune.metrics import look_up
from eagleray.tune.search._package import PackageSearcher, numbers_of, refuse
from eagleray.tune.search.sample import Categorical
from eagleray.tune.search.searcher import Searcher


class AxSearch(PackageSearcher):
    """Suggests what a client of Ax suggests. Conditions are not told to it: what does not count is asked for, and not used.

    Args:
        space: a nested dict of domains, or a list of Ax's parameters as dicts; without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with.
        parameter_constraints: such as `["x3 >= x4", "x3 + x4 <= 2"]`.
        outcome_constraints: such as `["l2norm <= 1.25"]`; the metric must be in every result.
        ax_client: a client with an experiment of its own.
        **ax_kwargs: what a client is made with, such as `random_seed`.
    """

    _package = "ax.service.ax_client"
    _pip = "ax-platform"

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        parameter_constraints: list[str] | None = None,
        outcome_constraints: list[str] | None = None,
        ax_client: Any = None,
        **ax_kwargs: Any,
    ) -> None:
        self._parameter_constraints = parameter_constraints
        self._outcome_constraints = outcome_constraints
        self._client_options = ax_kwargs
        super().__init__(space, metric, mode, points_to_evaluate, ax_kwargs.get("random_seed"))
        if ax_client is not None:
            self._optimizer = ax_client
            self._take_up(ax_client)

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """A nested dict of domains as Ax has it."""
        return _parameters(cls._convert(spec).params)

    def _take_up(self, client: Any) -> None:
        """An experiment says itself what it optimises, and over which space."""
        try:
            experiment = client.experiment
        except (AssertionError, ValueError, importlib.import_module("ax.exceptions.core").AxError):
            return
        self._space = list(experiment.parameters)
        objective = experiment.optimization_config.objective
        self._metric = objective.metric_names[0] if hasattr(objective, "metric_names") else objective.metric.name
        self._mode = "min" if objective.minimize else "max"

    def _is_own(self, space: Any) -> bool:
        return isinstance(space, list)

    def _make(self) -> Any:
        client = self._library.AxClient(
            **{"verbose_logging": False, "random_seed": self.seed, "enforce_sequential_optimization": False}
            | self._client_options
        )
        # A name of Ax's own must not have slashes.
        objective = self._library.ObjectiveProperties(minimize=self._mode == "min")
        client.create_experiment(
            parameters=self._space if self._converted is None else _parameters(self._converted.params),
            objectives={self._metric: objective},
            parameter_constraints=self._parameter_constraints,
            outcome_constraints=self._outcome_constraints,
        )
        return client

    def _next(self) -> Any:
        ends = importlib.import_module("ax.exceptions.core").OptimizationComplete
        waits = importlib.import_module("ax.exceptions.generation_strategy").MaxParallelismReachedException
        data = importlib.import_module("ax.exceptions.core").DataRequiredError
        try:
            found, number = self._optimizer.get_next_trial()
        except (waits, data):
            return None
        except ends:
            return Searcher.FINISHED
        return number, self._unnamed(found)

    def _give(self, point: Any) -> Any:
        _, number = self._optimizer.attach_trial(self._named(point))
        return number

    def _drop(self, asked: Any) -> None:
        self._optimizer.abandon_trial(asked)

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        names = [self._metric, *(text.split()[0] for text in self._outcome_constraints or [])]
        values = {name: look_up(result, name) for name in names}
        if loss is None or None in values.values():
            self._optimizer.log_trial_failure(asked)
        else:
            self._optimizer.complete_trial(asked, raw_data={name: (float(each), None) for name, each in values.items()})


def _parameters(params: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for param in params:
        if isinstance(param.domain, Categorical):
            count = len(param.branches)
            if count == 1:
                found.append({"name": param.name, "type": "fixed", "value": "0", "value_type": "str"})
            else:
                # As text: of numbers Ax believes that they have an order.
                places = [str(place) for place in range(count)]
                choice = {"type": "choice", "values": places, "is_ordered": False, "value_type": "str"}
                found.append({"name": param.name, **choice})
            continue
        kind, low, high, _ = numbers_of(param)
        if kind == "normal":
            refuse("AxSearch", param, "Ax draws from ranges: give `tune.uniform`.")
        value_type = "int" if kind.endswith("int") else "float"
        if low == high:
            found.append({"name": param.name, "type": "fixed", "value": low, "value_type": value_type})
            continue
        bounds = [int(low), int(high)] if value_type == "int" else [low, high]
        about = {"type": "range", "bounds": bounds, "value_type": value_type, "log_scale": kind.startswith("log_")}
        found.append({"name": param.name, **about})
    return found
