"""What can be done to a task besides calling it."""

from __future__ import annotations

from typing import Any

from eagleray import _native


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the task that makes this ref, or yields through this generator. Does nothing if it has ended."""
    ref = ray_waitable
    if not isinstance(ref, (_native.ObjectRef, _native.ObjectRefGenerator)):
        raise TypeError(f"ray.cancel() only supported for object refs. For actors, try ray.kill(). Got: {type(ref)}.")
    if force and _native.is_actor_call(ref):
        raise ValueError("force=True is not supported for actor tasks; use ray.kill() to end the actor")
    _native.cancel(ref, force, recursive)
