"""What functions take, as libraries ask for it."""

from __future__ import annotations

import inspect
from typing import Any


def get_signature(func: Any) -> inspect.Signature:
    """Give the signature of a function."""
    return inspect.signature(func)


def extract_signature(func: Any, ignore_first: bool = False) -> list[inspect.Parameter]:  # noqa: FBT001, FBT002
    """List the parameters of a function, all or all but the first."""
    parameters = list(get_signature(func).parameters.values())
    if not ignore_first:
        return parameters
    if not parameters:
        raise ValueError(f"Methods must take a 'self' argument, but the method '{func.__name__}' does not have one.")
    return parameters[1:]


def validate_args(signature_parameters: list[inspect.Parameter], args: Any, kwargs: Any) -> None:
    """Raise TypeError if the arguments do not fit the parameters."""
    inspect.Signature(signature_parameters).bind(*args, **kwargs)
