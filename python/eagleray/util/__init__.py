"""What programs use beside tasks, actors and objects."""

from __future__ import annotations

from eagleray._calls.actor_names import list_named_actors
from eagleray._common.submodules import loader
from eagleray._driver.cluster import get_node_instance_id, get_node_ip_address
from eagleray._errors.serialization_trace import inspect_serializability
from eagleray._values.pickling import deregister_serializer, register_serializer
from eagleray.util.actor_pool import ActorPool
from eagleray.util.annotations import DeveloperAPI, PublicAPI
from eagleray.util.client_connect import connect, disconnect
from eagleray.util.debug import disable_log_once_globally, enable_periodic_logging, log_once
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
    "DeveloperAPI",
    "PublicAPI",
    "as_completed",
    "connect",
    "deregister_serializer",
    "disable_log_once_globally",
    "disconnect",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_instance_id",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]

_submodule = loader(__name__)


def __getattr__(name: str) -> object:
    """Find submodules that nobody has imported yet."""
    # `ray.util.pdb` is the debugger of tasks.
    return _submodule("rpdb" if name == "pdb" else name)
