"""A function of the user's that ends trials."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from eagleray.tune.error import TuneError
from eagleray.tune.stopper.stopper import Stopper

if TYPE_CHECKING:
    from collections.abc import Callable


class FunctionStopper(Stopper):
    """Ends a trial when `function(trial_id, result)` is true."""

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        _check_arity(function)
        self._fn = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """What the function says."""
        return bool(self._fn(trial_id, result))

    def stop_all(self) -> bool:
        """No."""
        return False

    @classmethod
    def is_valid_function(cls, fn: object) -> bool:
        """Whether it is a function and not a stopper. What has a `stop_all` but is no `Stopper` was meant to be one."""
        is_function = callable(fn) and not isinstance(fn, Stopper)
        if is_function and hasattr(fn, "stop_all"):
            raise ValueError("Stop object must be ray.tune.Stopper subclass to be detected correctly.")
        return is_function


def _check_arity(function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in ones do not tell
        return
    try:
        signature.bind("trial_id", {})
    except TypeError:
        name = getattr(function, "__name__", repr(function))
        raise TuneError(f"a stop function is called with (trial_id, result), but {name} takes {signature}") from None
