"""Turns what users pass into what the engine takes: trainables, names, resources, places for files."""

from __future__ import annotations

import inspect
import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.error import TuneError
from eagleray.tune.execution.placement_groups import PlacementGroupFactory, as_factory
from eagleray.tune.registry import get_trainable_cls
from eagleray.tune.trainable.trainable import Trainable
from eagleray.tune.trainable.util import needed_count

if TYPE_CHECKING:
    from collections.abc import Callable


def trainable_of(given: Any) -> tuple[Any, str, bool]:
    """The trainable, its name, and whether it is a class."""
    if isinstance(given, str):
        resolved, name, is_class = trainable_of(get_trainable_cls(given))
        return resolved, given, is_class
    if hasattr(given, "as_trainable"):
        given = given.as_trainable()
    if inspect.isclass(given):
        if not issubclass(given, Trainable):
            raise TypeError(f"a class to be tuned must be a subclass of tune.Trainable; {given.__name__} is not")
        return given, given.__name__, True
    if not callable(given):
        raise TypeError(
            f"trainable must be a function, a subclass of tune.Trainable or a registered name, not {type(given).__name__}"
        )
    inner = given
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__)
    if needed_count(given) > 2:
        raise ValueError(
            f"a trainable is called with `config`, or with `config` and `reporter`; {name}{inspect.signature(given)} needs more. "
            "Give it the rest by tune.with_parameters."
        )
    return given, "lambda" if name == "<lambda>" else name, False


def check_serializable(trainable: Any, name: str) -> None:
    """Refuses a trainable that cannot be sent to other processes, and says what in it is the reason."""
    from eagleray import cloudpickle
    from eagleray.util import inspect_serializability

    try:
        cloudpickle.dumps(trainable)
    except Exception as error:
        lines = io.StringIO()
        inspect_serializability(trainable, name=name, print_file=lines)
        raise TypeError(
            f"the trainable {name!r} cannot be sent to other processes: {error}\n{lines.getvalue()}\n"
            "Make the objects named above inside of the function, or pass them with tune.with_parameters."
        ) from error


def resources_of(trainable: Any, given: Any) -> Callable[[dict[str, Any]], PlacementGroupFactory]:
    """What a trial of this configuration needs."""
    asked = given if given is not None else getattr(trainable, "_tune_resources", None)
    default = getattr(trainable, "default_resource_request", None)

    def resources(config: dict[str, Any]) -> PlacementGroupFactory:
        said = asked(config) if callable(asked) else asked
        if said is None and default is not None:
            said = default(config)
        return as_factory(said if said is not None else {"cpu": 1})

    if asked is not None and not callable(asked):
        as_factory(asked)  # wrong ones are refused before anything runs
    return resources


def storage_of(given: Any) -> Path:
    """Where experiments go, if it is not said: as other tools expect it."""
    place = given or os.environ.get("TUNE_RESULT_DIR") or os.environ.get("RAY_AIR_LOCAL_CACHE_DIR") or "~/ray_results"
    text = str(place)
    if text.startswith("file://"):
        text = text[7:]
    elif "://" in text:
        raise TuneError(f"storage_path must be a folder of this machine, not {text!r}")
    return Path(os.path.abspath(os.path.expanduser(text)))


def experiment_name(trainable_name: str) -> str:
    """Of an experiment that was not given one."""
    return f"{trainable_name}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"


def make_folder(wanted: Path) -> Path:
    """A folder of this name that nobody else has: experiments that begin in the same second get a number."""
    folder, number = wanted, 1
    while True:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            folder = wanted.with_name(f"{wanted.name}_{number}")
        else:
            return folder
