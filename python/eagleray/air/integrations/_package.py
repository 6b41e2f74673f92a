"""Finds the package of a tracker when it is first used, so that its module can be imported without it."""

from __future__ import annotations

import importlib
from numbers import Number
from typing import Any


def needed(name: str, pip: str, who: str) -> Any:
    """Import the package, or say how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(f"{who} needs {pip}, which is not installed: run `pip install {pip}`.", name=name) from None


def numbers_of(result: dict[str, Any]) -> dict[str, float]:
    """Flatten a result, and leave out what is no number."""
    from eagleray.tune.utils import flatten_dict

    flat = flatten_dict(result)
    return {
        name: float(value)  # type: ignore[arg-type]
        for name, value in flat.items()
        if isinstance(value, Number) and not isinstance(value, (bool, complex))
    }


def of_this_trial() -> dict[str, str] | None:
    """Say which trial runs here; None outside of trials."""
    from eagleray.train._internal.session import get_session

    session = get_session()
    if session is None:
        return None
    spec = session.spec
    return {"id": spec.trial_id, "name": spec.trial_name, "experiment": spec.experiment_name}
