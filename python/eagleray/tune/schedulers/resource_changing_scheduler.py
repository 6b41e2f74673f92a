"""Gives trials more or less resources while they run."""

from __future__ import annotations

import importlib
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray import cloudpickle
from eagleray.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eagleray.tune.experiment.trial import Trial
    from eagleray.tune.schedulers.trial_scheduler import Controller

    Amounts = dict[str, float]


def _amounts(resources: Any) -> Amounts:
    """Resources as a plain dict, whatever stands for them."""
    if resources is None:
        return {}
    plain = getattr(resources, "required_resources", resources)
    return {_NAMES.get(str(name), str(name)): float(amount) for name, amount in dict(plain).items() if amount}


_NAMES = {"cpu": "CPU", "gpu": "GPU"}


def _plus(a: Amounts, b: Amounts, times: float = 1) -> Amounts:
    names = [*a, *(name for name in b if name not in a)]
    return {name: a.get(name, 0) + times * b.get(name, 0) for name in names}


def _fits(free: Amounts, unit: Amounts) -> int:
    """How many units there are in what is free; negative if something is lacking."""
    return min(math.floor(free.get(name, 0) / amount + 1e-9) for name, amount in unit.items())


class DistributeResources:
    """Spreads what is free evenly over the live trials. None gets less than it began with.

    Args:
        add_bundles: whether a trial gets more bundles instead of a larger one.
        increase_by: what a trial gets at once, 1 GPU or else 1 CPU by default; with `add_bundles`, its last bundle.
        increase_by_times: a trial gets that at most so often, if this is positive and `increase_by` is given.
        reserve_resources: what is kept back.
    """

    def __init__(
        self,
        add_bundles: bool = False,  # noqa: FBT001, FBT002
        increase_by: Amounts | None = None,
        increase_by_times: int = -1,
        reserve_resources: Amounts | None = None,
    ) -> None:
        self.add_bundles = add_bundles
        self.increase_by = increase_by or {}
        self.increase_by_times = increase_by_times
        self.reserve_resources = reserve_resources or {}
        if self.increase_by and not all(amount >= 0 for amount in self.increase_by.values()):
            raise ValueError(f"increase_by must not be negative: {self.increase_by}")

    def __call__(
        self, controller: Controller, trial: Trial, result: dict[str, Any], scheduler: ResourceChangingScheduler
    ) -> Any:
        """What the trial is to have, or None for what it has."""
        if result.get("training_iteration", 1) < 1:
            return None
        base = _amounts(scheduler.base_trial_resources) or {"CPU": 1.0}
        unit = self._unit(base, scheduler.base_trial_resources)
        others = list(controller.get_live_trials())
        total = self._total()
        used: Amounts = {}
        for other in others:
            used = _plus(used, _amounts(other.resources))
        has = max(0, _fits(_plus(_amounts(trial.resources), base, -1), unit))
        free = _fits(_plus(total, used, -1), unit)
        share = self._share(trial, others, _fits(_plus(total, base, -len(others)), unit), has)
        if self.increase_by_times > 0 and self.increase_by:
            share = min(share, self.increase_by_times)
        times = has if free == 0 else max(0, min(has + free, share) if free > 0 else has + free)
        return self._resources(scheduler.base_trial_resources, base, unit, times)

    def _unit(self, base: Amounts, given: Any) -> Amounts:
        if self.increase_by:
            return _amounts(self.increase_by)
        if self.add_bundles:
            return _amounts(getattr(given, "bundles", [base])[-1])
        return {"GPU": 1.0} if base.get("GPU") else {"CPU": 1.0}

    def _total(self) -> Amounts:
        """What the machines have, less what is kept back."""
        return _plus(_amounts(eagleray.cluster_resources()), self.reserve_resources, -1)

    def _share(self, trial: Trial, others: Sequence[Trial], units: int, has: int) -> int:
        """How many units the trial may have at most, when `units` are there beside what all began with."""
        return math.ceil(max(0, units) / max(1, len(others)))

    def _resources(self, given: Any, base: Amounts, unit: Amounts, times: int) -> Any:
        if not self.add_bundles:
            return _plus(base, unit, times)
        factory = importlib.import_module("eagleray.tune.execution.placement_groups").PlacementGroupFactory
        return factory([*getattr(given, "bundles", [base]), *([unit] * times)])


class DistributeResourcesToTopJob(DistributeResources):
    """Gives all that is free to the best trial; what others got earlier they keep.

    Arguments are those of `DistributeResources`, and `metric` and `mode`, by default those of the scheduler.
    """

    def __init__(
        self,
        add_bundles: bool = False,  # noqa: FBT001, FBT002
        increase_by: Amounts | None = None,
        increase_by_times: int = -1,
        reserve_resources: Amounts | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        self.metric = metric
        self.mode = mode

    def _share(self, trial: Trial, others: Sequence[Trial], units: int, has: int) -> int:
        if self.metric is None:
            raise ValueError(
                "The metric parameter cannot be None. The parameter can be set in either `DistributeResourcesToTopJob`, the base scheduler or in "
                "`tune.TuneConfig()` (highest to lowest priority)."
            )
        if self.mode not in ("min", "max"):
            raise ValueError("The mode parameter can only be either min or max.")
        sign = 1.0 if self.mode == "max" else -1.0
        reported = [other for other in others if _is_finite(other.last_result.get(self.metric))]
        best = max(reported, key=lambda other: sign * float(other.last_result[str(self.metric)]), default=trial)
        return units if best.trial_id == trial.trial_id else has


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def evenly_distribute_cpus_gpus(
    controller: Controller, trial: Trial, result: dict[str, Any], scheduler: ResourceChangingScheduler
) -> Any:
    """The older name of `DistributeResources()`."""
    return DistributeResources()(controller, trial, result, scheduler)


class ResourceChangingScheduler(TrialScheduler):
    """Lets another scheduler decide, and changes the resources of trials that go on.

    A trial whose resources change is paused and goes on from its checkpoint with the new ones.

    Args:
        base_scheduler: who decides; first come, first served by default.
        resources_allocation_function: is called as `f(controller, trial, result, scheduler)` after each result and returns what the trial is to have
            (a dict such as `{"CPU": 2}`, or a PlacementGroupFactory) or None for no change.
    """

    def __init__(
        self,
        base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: Callable[..., Any] | None = DistributeResources(),  # noqa: B008
    ) -> None:
        if resources_allocation_function is None:
            warnings.warn(
                "`resources_allocation_function` is None. No resource requirements will be changed at any time. "
                "Pass a correctly defined function to enable functionality.",
                stacklevel=2,
            )
        self._resources_allocation_function = resources_allocation_function
        self._base_scheduler = base_scheduler or FIFOScheduler()
        self._base_trial_resources: Any = None
        self._reallocated: set[str] = set()

    @property
    def metric(self) -> str | None:
        """What the other scheduler looks at."""
        return self._base_scheduler.metric or self._metric

    @property
    def mode(self) -> str | None:
        """Which end of it is good."""
        return self._base_scheduler.mode or self._mode

    @property
    def base_trial_resources(self) -> Any:
        """What trials begin with."""
        return self._base_trial_resources

    @property
    def supports_buffered_results(self) -> bool:
        """As the other scheduler."""
        return self._base_scheduler.supports_buffered_results

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Passes them on."""
        self._metric, self._mode = metric, mode
        return self._base_scheduler.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """All trials must begin with the same."""
        if self._base_trial_resources is None:
            self._base_trial_resources = trial.resources
        elif trial.trial_id not in self._reallocated and _amounts(trial.resources) != _amounts(
            self._base_trial_resources
        ):
            raise RuntimeError(
                f"ResourceChangingScheduler doesn't support trials with varying base resources. First trial had {self._base_trial_resources}, "
                f"trial {trial} has {trial.resources}."
            )
        self._base_scheduler.on_trial_add(controller, trial)

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """Passes it on."""
        self._base_scheduler.on_trial_error(controller, trial)

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        """Pauses a trial that goes on if it is to have other resources."""
        decision = self._base_scheduler.on_trial_result(controller, trial, result)
        if decision != TrialScheduler.CONTINUE:
            return decision
        resources = self._wanted(controller, trial, result)
        if resources is None:
            return decision
        controller.update_trial_resources(trial, resources)
        self._reallocated.add(trial.trial_id)
        return TrialScheduler.PAUSE

    def _wanted(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> Any:
        allocate = self._resources_allocation_function
        if allocate is None:
            return None
        if isinstance(allocate, DistributeResourcesToTopJob):
            allocate.metric = allocate.metric or self.metric
            allocate.mode = allocate.mode or self.mode
        resources = allocate(controller, trial, result, self)
        is_same = not resources or _amounts(resources) == _amounts(trial.resources)
        return None if is_same else resources

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Passes it on."""
        self._base_scheduler.on_trial_complete(controller, trial, result)

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """Passes it on."""
        self._base_scheduler.on_trial_remove(controller, trial)

    def needs_together(self, population: int | None, together: int) -> str | None:
        """As the one that decides."""
        return self._base_scheduler.needs_together(population, together)

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """The other scheduler chooses."""
        return self._base_scheduler.choose_trial_to_run(controller)

    def debug_string(self) -> str:
        """Whom it wraps."""
        return f"(ResourceChangingScheduler) {self._base_scheduler.debug_string()}"

    def save(self, checkpoint_path: str) -> None:
        """Writes its state and the other scheduler's to a file."""
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self.__dict__))

    def restore(self, checkpoint_path: str) -> None:
        """Takes them from a file."""
        self.__dict__.update(cloudpickle.loads(Path(checkpoint_path).read_bytes()))
