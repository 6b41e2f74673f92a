"""Marks that programs put on what they write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F")


def override(parent_cls: Any) -> Callable[[F], F]:
    """Mark a method as one that replaces a parent's of the same name."""

    def mark(method: F) -> F:
        name = getattr(method, "__name__", "")
        if isinstance(parent_cls, type) and name and not hasattr(parent_cls, name):
            raise NameError(f"{method!r} does not override any method of {parent_cls!r}")
        return method

    return mark


def _plain(given: Any) -> Any:
    return given


#: Marks that change nothing.
PublicAPI = DeveloperAPI = ExperimentalAPI = OverrideToImplementCustomLogic = _plain

__all__ = ["DeveloperAPI", "ExperimentalAPI", "OverrideToImplementCustomLogic", "PublicAPI", "override"]
