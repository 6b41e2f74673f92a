"""Population based bandits."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.tune.error import TuneError
from eagleray.tune.schedulers import _mutations
from eagleray.tune.schedulers._native import Pb2, Pbt
from eagleray.tune.schedulers.pbt import PopulationBasedTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.tune.experiment.trial import Trial
    from eagleray.tune.schedulers.trial_scheduler import Controller


class PB2(PopulationBasedTraining):
    """Population based training in which a model of what has paid so far chooses the new parameters, within bounds.

    Nothing else needs to be installed for it.

    Args:
        time_attr: what counts as time in results; it only has to rise.
        metric: what is compared.
        mode: "min" or "max".
        perturbation_interval: a trial is looked at after each of these.
        hyperparam_bounds: for each parameter `[low, high]`; dicts nest. What a trial's configuration lacks is drawn from there.
        quantile_fraction: which share goes on from which share; at most 0.5.
        log_config: whether exploits are noted in the experiment's folder.
        require_attrs: whether a result without time or metric is an error.
        synch: whether all trials wait for each other at each interval.
        custom_explore_fn: changes the new configuration further, and returns it.
        seed: chance comes from here, by default from the first trial's id.
        reward_attr: the older name of a metric that is to be large.
    """

    _brains: ClassVar[dict[str, Any]] = {"_brain": Pbt, "_model": Pb2}

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: dict[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,  # noqa: FBT001, FBT002
        require_attrs: bool = True,  # noqa: FBT001, FBT002
        synch: bool = False,  # noqa: FBT001, FBT002
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        *,
        seed: int | None = None,
        reward_attr: str | None = None,
    ) -> None:
        bounds = hyperparam_bounds or {}
        if not bounds:
            raise TuneError("`hyperparam_bounds` must be specified to use PB2 scheduler.")
        for _, value in _mutations.leaves(bounds):
            if not isinstance(value, list | tuple) or len(value) != 2:
                raise ValueError(
                    f"`hyperparam_bounds` values must either be a list or tuple of size 2, but got {value} instead"
                )
            if not value[0] <= value[1]:
                raise ValueError(f"`hyperparam_bounds` must be [low, high], but got {value}")
        super().__init__(
            time_attr=time_attr,
            metric=metric,
            mode=mode,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations=bounds,
            quantile_fraction=quantile_fraction,
            resample_probability=0.0,
            custom_explore_fn=custom_explore_fn,
            log_config=log_config,
            require_attrs=require_attrs,
            synch=synch,
            seed=seed,
            reward_attr=reward_attr,
        )
        self._hyperparam_bounds = bounds
        self._model: Any = None
        #: By the brain's number: the parameters that a trial runs with.
        self._values: list[list[float]] = []

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """Draws what its configuration lacks from the bounds."""
        super().on_trial_add(controller, trial)
        if self._model is None:
            bounds = [(float(spec[0]), float(spec[1])) for _, spec in self._leaves]
            self._model = Pb2(bounds, self._seed or 0)
        self._values.append(self._parameters(trial.config))

    def _fill(self, trial: Trial, seed: int) -> None:
        within = {path: _Between(*spec) for path, spec in self._leaves}
        drawn: dict[str, Any] = {}
        for path, spec in within.items():
            _mutations.put(drawn, path, spec)
        trial.evaluated_params.update(_mutations.fill(trial.config, drawn, seed))

    def _parameters(self, config: dict[str, Any]) -> list[float]:
        return [float(_mutations.get(config, path)) for path, _ in self._leaves]

    def _on_look(self, known: int, time: float, value: float) -> None:
        score = self._brain.score(known)
        self._model.observe(known, time, self._values[known], float("nan") if score is None else score)

    def _explored(self, known: int, giver: int, draw: int) -> tuple[dict[str, Any], dict[str, Any]]:
        base = self._trials[giver].config
        config = copy.deepcopy(base)
        operations: dict[str, Any] = {}
        proposed = self._model.propose(giver, draw)
        for (path, spec), value in zip(self._leaves, proposed, strict=True):
            is_whole = isinstance(_mutations.get(base, path), int)
            # Rounding may not leave the bounds.
            chosen = min(max(round(value), spec[0]), spec[1]) if is_whole else value
            _mutations.put(config, path, chosen)
            _mutations.put(operations, path, "model")
        config = self._custom(config)
        self._values[known] = self._parameters(config)
        self._model.accepted(known, giver, self._values[known])
        return config, operations


class _Between:
    """A domain of one's own: evenly between two numbers."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def sample(self, random_state: int) -> float:
        return random.Random(random_state).uniform(self.low, self.high)
