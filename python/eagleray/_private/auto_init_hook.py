"""How libraries make sure that there is a session before they use the API: here each call of the API sees to that itself."""

from __future__ import annotations

from typing import Any


def auto_init_ray() -> None:
    """Start a session if there is none."""
    from eagleray import _native

    _native.ensure_started()


def wrap_auto_init(function: Any) -> Any:
    """Make a function start a session first, if there is none."""
    import functools

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        auto_init_ray()
        return function(*args, **kwargs)

    return wrapped
