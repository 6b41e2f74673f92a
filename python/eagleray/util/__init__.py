"""What programs use beside tasks, actors and objects."""

from __future__ import annotations

from eagleray._names import list_named_actors
from eagleray._pickle import deregister_serializer, register_serializer
from eagleray._serialization_trace import inspect_serializability
from eagleray.util.actor_pool import ActorPool
from eagleray.util.helpers import as_completed, map_unordered

__all__ = [
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "register_serializer",
]
