"""What ends trials, or a whole experiment, by what is reported."""

from __future__ import annotations

from typing import Any

from eagleray.tune.error import TuneError
from eagleray.tune.stopper.dictionary import DictionaryStopper
from eagleray.tune.stopper.experiment_plateau import ExperimentPlateauStopper
from eagleray.tune.stopper.function_stopper import FunctionStopper
from eagleray.tune.stopper.maximum_iteration import MaximumIterationStopper
from eagleray.tune.stopper.noop import NoopStopper
from eagleray.tune.stopper.stopper import CombinedStopper, Stopper
from eagleray.tune.stopper.timeout import TimeoutStopper
from eagleray.tune.stopper.trial_plateau import TrialPlateauStopper


def as_stopper(stop: Any) -> Stopper | None:
    """What users pass as `stop`: thresholds, a function, a stopper or a list of stoppers. None if nothing is to end anything."""
    if stop is None or (isinstance(stop, dict | list | tuple) and not stop):
        return None
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, dict):
        return DictionaryStopper(stop)
    if isinstance(stop, list | tuple):
        if not all(isinstance(one, Stopper) for one in stop):
            raise ValueError(
                "If you pass a list as the `stop` argument to `RunConfig()`, each element must be an instance of `tune.stopper.Stopper`."
            )
        return CombinedStopper(*stop)
    if isinstance(stop, type) and issubclass(stop, Stopper):
        raise TuneError(f"stop={stop.__name__} is a class: pass an instance of it")
    if FunctionStopper.is_valid_function(stop):
        return FunctionStopper(stop)
    raise ValueError(
        f"Provided stop object must be either a dict, a function, or a subclass of `ray.tune.Stopper`. Got {type(stop)}."
    )


__all__ = [
    "CombinedStopper",
    "DictionaryStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
    "as_stopper",
]
