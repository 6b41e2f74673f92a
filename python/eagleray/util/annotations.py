"""Marks by which libraries say how firm a name of theirs is: `PublicAPI`, `DeveloperAPI`, `Deprecated`.

Each stands alone (`@PublicAPI`) or with words (`@PublicAPI(stability="beta")`), on a function or a class. A mark adds a line to the
docstring; only `Deprecated(warning=True)` does more.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from enum import Enum
from typing import Any

_STABILITIES = ("stable", "beta", "alpha")


class AnnotationType(Enum):
    """Which mark a name carries."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


class RayDeprecationWarning(DeprecationWarning):
    """Warns of what `Deprecated(warning=True)` marks. Shown by default, unlike its base class."""


if not any(category is RayDeprecationWarning for _, _, category, *_ in warnings.filters):
    warnings.filterwarnings("default", category=RayDeprecationWarning)


def PublicAPI(*given: Any, stability: str = "stable", api_group: str = "Others") -> Any:
    """Mark what users may rely on: "stable", "beta" or "alpha"."""
    if stability not in _STABILITIES:
        raise ValueError(f"stability must be one of {_STABILITIES}, got {stability!r}")
    note = "" if stability == "stable" else f"**PublicAPI ({stability}):** this may change before it is stable."
    return _decorated(given, lambda target: _mark(target, AnnotationType.PUBLIC_API, note, api_group))


def DeveloperAPI(*given: Any, api_group: str = "Others") -> Any:
    """Mark what authors of libraries may use, and what may change between minor versions."""
    note = "**DeveloperAPI:** this may change between minor versions."
    return _decorated(given, lambda target: _mark(target, AnnotationType.DEVELOPER_API, note, api_group))


def Deprecated(*given: Any, message: str | None = None, warning: bool = False) -> Any:
    """Mark what will go. With `warning`, whoever uses it is told, once per place."""
    note = f"**DEPRECATED:** {message or 'this will be removed in a later version.'}"

    def mark(target: Any) -> Any:
        marked = _warning(target, message) if warning else target
        return _mark(marked, AnnotationType.DEPRECATED, note, "Others")

    return _decorated(given, mark)


def _decorated(given: tuple[Any, ...], mark: Any) -> Any:
    """Serve `@Mark` and `@Mark(...)`."""
    if len(given) == 1 and (inspect.isclass(given[0]) or callable(given[0])):
        return mark(given[0])
    if given:
        raise TypeError("give keyword arguments, or nothing but the function or class")
    return mark


def _mark(target: Any, kind: AnnotationType, note: str, group: str) -> Any:
    if note:
        target.__doc__ = f"{inspect.cleandoc(target.__doc__ or '')}\n\n{note}".strip()
    # A subclass of a marked class is not marked by that.
    target._annotated = target.__name__
    target._annotated_type = kind
    target._annotated_api_group = group
    return target


def _warning(target: Any, message: str | None) -> Any:
    """Make using this warn."""
    text = f"{target.__module__}.{target.__qualname__} is deprecated. {message or ''}".strip()
    called = target.__init__ if inspect.isclass(target) else target

    @functools.wraps(called)
    def warn(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        return called(*args, **kwargs)

    if not inspect.isclass(target):
        return warn
    type.__setattr__(target, "__init__", warn)
    return target


def _is_annotated(obj: Any, check_annotated: bool = True) -> bool:  # noqa: FBT001, FBT002
    """Tell whether this very name is marked; a subclass is not by its parent's mark."""
    if check_annotated and not inspect.isclass(obj) and not callable(obj):
        return False
    return getattr(obj, "_annotated", None) == getattr(obj, "__name__", "")


def _get_annotation_type(obj: Any) -> str | None:
    """Name the mark, or None."""
    return str(obj._annotated_type.value) if _is_annotated(obj) else None
