"""torch, where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from eagleray.rllib.utils.error import MissingPackageError


def has_torch() -> bool:
    """Whether torch can be imported."""
    found = importlib.util.find_spec("torch")
    # A folder of that name beside the program is no package.
    return found is not None and found.origin is not None


def torch_needed(who: str) -> None:
    """Says in words that torch is missing, and how to get it."""
    if not has_torch():
        raise MissingPackageError(f"{who} needs torch: pip install 'eagleray[torch]'")


def try_import_torch(error: bool = False) -> tuple[Any, Any]:  # noqa: FBT001, FBT002 - RLlib's signature
    """Torch and torch.nn, or two times None where it is not installed; with `error` that is an ImportError."""
    if error:
        torch_needed("this program")
    if not has_torch():
        return None, None
    return importlib.import_module("torch"), importlib.import_module("torch.nn")


__all__ = ["try_import_torch"]
