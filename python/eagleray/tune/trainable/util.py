"""Ways to dress a trainable: with data that is stored once, with resources."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.tune import _session
from eagleray.tune.trainable.trainable import Trainable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def with_parameters(trainable: Any, **kwargs: Any) -> Any:
    """Pass large objects to all trials: each is stored once, and read where it lies.

    A function gets them as keyword arguments beside `config`, a class in `setup(config, **kwargs)`.
    """
    if not callable(trainable):
        raise TypeError(f"`tune.with_parameters() only works with function trainables or classes, not {trainable!r}`")
    stored = {name: eagleray.put(value) for name, value in kwargs.items()}
    if inspect.isclass(trainable):

        class WithParameters(trainable):  # type: ignore[misc]
            def setup(self, config: dict[str, Any]) -> None:
                super().setup(config, **_load(stored))

        WithParameters.__name__ = WithParameters.__qualname__ = trainable.__name__
        WithParameters.__module__ = trainable.__module__
        return WithParameters

    @functools.wraps(trainable, updated=())
    def with_stored(config: dict[str, Any]) -> Any:
        return call_trainable(trainable, config, **_load(stored))

    del with_stored.__wrapped__  # what it takes is `config` alone
    _keep_resources(trainable, with_stored)
    return with_stored


def _load(stored: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(stored, eagleray.get(list(stored.values())), strict=True))


def takes(function: Any, name: str) -> bool:
    """Whether a function has an argument of this name."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def needed_count(function: Any, named: Collection[str] = ("checkpoint_dir",)) -> int:
    """How many arguments it needs, but for those that are given by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty and p.name not in named for p in parameters)


def _keep_resources(old: Any, new: Any) -> None:
    if hasattr(old, "_tune_resources"):
        new._tune_resources = old._tune_resources


def with_resources(trainable: Any, resources: Any) -> Any:
    """Say what each trial needs: a dictionary, a `PlacementGroupFactory`, or a function of the configuration that gives one."""
    from eagleray.tune.execution.placement_groups import PlacementGroupFactory, as_factory

    if not isinstance(resources, dict | PlacementGroupFactory) and not callable(resources):
        raise TypeError(
            f"Invalid resources: {resources!r}. Pass a dict, a `PlacementGroupFactory`, or a function that takes a config and returns one."
        )
    if isinstance(resources, dict):
        as_factory(resources)  # wrong amounts are refused here, where the user stands
    if inspect.isclass(trainable) and issubclass(trainable, Trainable):

        class WithResources(trainable):  # type: ignore[misc]
            _tune_resources = staticmethod(resources) if callable(resources) else resources

        WithResources.__name__ = WithResources.__qualname__ = trainable.__name__
        WithResources.__module__ = trainable.__module__
        return WithResources
    if isinstance(trainable, str):
        from eagleray.tune.registry import get_trainable_cls

        return with_resources(get_trainable_cls(trainable), resources)

    @functools.wraps(trainable, updated=())
    def with_them(config: dict[str, Any]) -> Any:
        return call_trainable(trainable, config)

    del with_them.__wrapped__
    with_them._tune_resources = resources  # type: ignore[attr-defined]
    return with_them


class Reporter:
    """What functions of two arguments get as the second one."""

    def __call__(self, **metrics: Any) -> None:
        """Report."""
        _session.report(metrics)

    @property
    def logdir(self) -> str | None:
        """The trial's folder."""
        return _session.get_trial_dir()

    @property
    def trial_id(self) -> str | None:
        """The trial's id."""
        return _session.get_trial_id()


def call_trainable(function: Callable[..., Any], config: dict[str, Any], **stored: Any) -> Any:
    """Calls a function trainable with what it takes: nothing, `config`, or `config` and `reporter`; by name `checkpoint_dir` and what is stored."""
    if "checkpoint_dir" not in stored and takes(function, "checkpoint_dir"):
        # Older functions go on from the folder that they get here.
        checkpoint = _session.get_checkpoint()
        stored["checkpoint_dir"] = None if checkpoint is None else checkpoint.path
    if takes(function, "reporter"):
        stored.setdefault("reporter", Reporter())
    count = needed_count(function, stored)
    if count == 0 and not takes(function, "config"):
        return function(**stored)
    if count >= 2:
        return function(config, Reporter(), **stored)
    return function(config, **stored)
