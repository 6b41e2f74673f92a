"""What programs use beside tasks, actors and objects."""

from __future__ import annotations

from eagleray._calls.actor_names import list_named_actors
from eagleray._errors.serialization_trace import inspect_serializability
from eagleray._values.pickling import deregister_serializer, register_serializer
from eagleray.util.actor_pool import ActorPool
from eagleray.util.helpers import as_completed, map_unordered
from eagleray.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__all__ = [
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "get_current_placement_group",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]
