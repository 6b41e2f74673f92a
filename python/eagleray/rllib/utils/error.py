"""What goes wrong between a program's environments and an algorithm."""

from __future__ import annotations

import importlib


class EnvError(Exception):
    """An environment does not do what environments do."""


class SpaceMismatchError(EnvError, ValueError):
    """What an environment gives contradicts the spaces that it declares."""


class NotFiniteError(EnvError, ValueError):
    """An observation, reward or loss is not a number, or infinite."""


class UnsupportedSpaceException(EnvError):
    """A space that no network here can see or act in."""


class PolicyMappingError(EnvError, ValueError):
    """An agent acts by a policy that there is not."""


class CustomModelError(ValueError):
    """A model of a program's own that cannot be used as it is."""


class MissingPackageError(ImportError):
    """A package that learning, or only some environments or models, need is not installed."""


def numpy_needed() -> None:
    """Says in words that numpy is missing, instead of a bare ImportError from deep inside."""
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        raise MissingPackageError(
            "reinforcement learning needs numpy: pip install 'eagleray[rllib]', or pip install numpy"
        ) from error
