"""What programs use beside tasks, actors and objects."""

from __future__ import annotations

from eagleray._names import list_named_actors
from eagleray._pickle import deregister_serializer, register_serializer
from eagleray._serialization_trace import inspect_serializability

__all__ = [
    "deregister_serializer",
    "inspect_serializability",
    "list_named_actors",
    "register_serializer",
]
