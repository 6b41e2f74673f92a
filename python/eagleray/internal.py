"""What few programs need: freeing values by hand."""

from __future__ import annotations

from typing import Any

from eagleray import _native
from eagleray._native import ObjectRef


def free(object_refs: Any, local_only: bool = False) -> None:  # noqa: FBT001, FBT002 - as Ray has it
    """Make the values of these refs unreadable at once, although refs live on: whoever asks later gets ObjectFreedError.

    The bytes go when the last array or other view of them has gone. `local_only` means nothing on a single machine.
    """
    if isinstance(object_refs, ObjectRef):
        object_refs = [object_refs]
    if not isinstance(object_refs, list):
        raise TypeError(f"free() expects a list of ObjectRef, got {type(object_refs)}")
    for ref in object_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"Attempting to call `free` on the value {ref}, which is not an ray.ObjectRef.")
    _native.free(object_refs)
