"""What the schedulers with a native brain have in common: metric and mode, trials by number, pickles."""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, Any, ClassVar

from eagleray._common.near import hint
from eagleray.tune.metrics import look_up
from eagleray.tune.schedulers.trial_scheduler import DEFAULT_METRIC, FIFOScheduler

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial
    from eagleray.tune.schedulers.trial_scheduler import Controller

logger = logging.getLogger(__name__)

_MISSING = object()


def require(condition: object, text: str) -> None:
    """Raises what programs catch when they give a scheduler something wrong, also where Python leaves `assert` out."""
    if not condition:
        raise AssertionError(text)


def found(result: dict[str, Any], name: str) -> Any:
    """The value of a metric; `missing` tells whether there is none."""
    return look_up(result, name, _MISSING)


def missing(value: object) -> bool:
    """Whether a result did not have what was looked for."""
    return value is _MISSING


def number(value: Any, name: str) -> float:
    """A reported value as a number. None is one that nobody knows."""
    if value is None:
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number for the scheduler, not {value!r}") from None


def of_reward(reward_attr: str | None, metric: str | None, mode: str | None) -> tuple[str | None, str | None]:
    """Metric and mode, also where a program of old gives `reward_attr` instead."""
    if reward_attr is None:
        return metric, mode
    logger.warning("`reward_attr` is an older name: use `metric=%r` and `mode='max'`.", reward_attr)
    return reward_attr, "max"


class BrainedScheduler(FIFOScheduler):
    """A scheduler whose decisions a native state machine makes.

    The brain is made with the first trial: only then metric and mode are known for sure. Its chance comes from `seed`, or from the first trial's id,
    which stays the same when an experiment is resumed.
    """

    #: The classes that a pickle's bytes are made into again.
    _brains: ClassVar[dict[str, Any]] = {}

    def __init__(self, *, metric: str | None, mode: str | None, time_attr: str, seed: int | None = None) -> None:
        self._metric = metric
        self._mode = mode
        self._time_attr = time_attr
        self._seed = seed
        self._brain: Any = None
        #: Trial ids to the brain's numbers, and back.
        self._numbers: dict[str, int] = {}
        self._trials: list[Trial] = []
        self._is_told_no_time = False

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Takes metric and mode of the experiment over. False if the scheduler has its own already."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric = metric or self._metric
        self._mode = mode or self._mode
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        return True

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """Numbers the trial. One that is added again, after it had failed, begins anew."""
        if self._metric is None and self._mode:
            self._metric = DEFAULT_METRIC
        if not self._metric or self._mode not in ("min", "max"):
            text = (
                f"{type(self).__name__} has been instantiated without a valid `metric` ({self._metric}) or `mode` ({self._mode}) parameter. "
                "Either pass these parameters when instantiating the scheduler, or pass them as parameters to `tune.TuneConfig()`"
            )
            raise ValueError(text)
        if self._brain is None:
            if self._seed is None:
                self._seed = zlib.crc32(trial.trial_id.encode())
            self._brain = self._make_brain(self._mode, self._seed)
        self._numbers[trial.trial_id] = self._brain.add()
        self._trials.append(trial)

    def _make_brain(self, mode: str, seed: int) -> Any:
        raise NotImplementedError

    def _number(self, trial: Trial) -> int | None:
        return self._numbers.get(trial.trial_id)

    def _observed(self, result: dict[str, Any]) -> tuple[float, float] | None:
        """Time and value of a result, if it has both."""
        time, value = found(result, self._time_attr), found(result, self._metric or DEFAULT_METRIC)
        if missing(time):
            self._tell_no_time(result)
        if missing(time) or missing(value):
            return None
        return number(time, self._time_attr), number(value, self._metric or DEFAULT_METRIC)

    def _tell_no_time(self, result: dict[str, Any]) -> None:
        """Say once that this scheduler will never decide anything."""
        if self._is_told_no_time:
            return
        self._is_told_no_time = True
        logger.warning(
            "%s has time_attr=%r, which results do not have: it cannot stop any trial.%s",
            type(self).__name__,
            self._time_attr,
            hint(self._time_attr, result),
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in self._brains:
            if state.get(name) is not None:
                state[name] = state[name].state()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name, brain in self._brains.items():
            kept = self.__dict__.get(name)
            if isinstance(kept, bytes):
                self.__dict__[name] = brain.of_state(kept)
