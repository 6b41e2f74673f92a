"""Who decides which trials go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.tune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from eagleray.tune.schedulers.hb_bohb import HyperBandForBOHB
from eagleray.tune.schedulers.hyperband import HyperBandScheduler
from eagleray.tune.schedulers.median_stopping_rule import MedianStoppingRule
from eagleray.tune.schedulers.pb2 import PB2
from eagleray.tune.schedulers.pbt import PopulationBasedTraining, PopulationBasedTrainingReplay
from eagleray.tune.schedulers.resource_changing_scheduler import ResourceChangingScheduler
from eagleray.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

#: Names that `create_scheduler` knows.
SCHEDULER_IMPORT: dict[str, Callable[..., TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": ASHAScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
    "pb2": PB2,
    "resource_changing": ResourceChangingScheduler,
}


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """A scheduler by its name, such as "pbt" or "async_hyperband"; everything else is passed on to it."""
    name = scheduler.lower()
    if name not in SCHEDULER_IMPORT:
        raise ValueError(f"The `scheduler` argument must be one of {list(SCHEDULER_IMPORT)}. Got: {scheduler}")
    return SCHEDULER_IMPORT[name](**kwargs)


__all__ = [
    "PB2",
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "ResourceChangingScheduler",
    "TrialScheduler",
    "create_scheduler",
]
