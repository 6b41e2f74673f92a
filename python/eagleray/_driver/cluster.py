"""What the cluster has and what of it is free."""

from __future__ import annotations

from typing import Any

from eagleray import _native
from eagleray._common.amounts import all_shown


def _amounts(parts: dict[str, int]) -> dict[str, float]:
    return {name: amount for name, amount in all_shown(parts).items() if amount}


def cluster_resources() -> dict[str, float]:
    """Say what all nodes together have."""
    _native.ensure_started()
    status = _native.status()
    total = _in_all("total", status["total"]) | _in_groups(0)
    return {**_amounts(total), "object_store_memory": float(status["store_capacity"])}


def available_resources() -> dict[str, float]:
    """Say what of it is free; what is used up is left out.

    Tasks that waited and run on may hold more than there is for a moment: then nothing is free, and not less.
    """
    _native.ensure_started()
    status = _native.status()
    free = _in_all("free", status["free"]) | _in_groups(1)
    return {**_amounts(free), "object_store_memory": float(status["store_capacity"] - status["store_used"])}


def _in_groups(which: int) -> dict[str, int]:
    """Say what bundles of placement groups hold, or what of that is free, under the names that tell them from what nodes have."""
    return {name: max(0, parts) for name, parts in _native.resources()[which].items() if "_group_" in name}


def _in_all(what: str, here: dict[str, int]) -> dict[str, int]:
    """Add to what this node has what the others have, as they last said."""
    own = _native.identity()["node_id"]
    others = [node[what] for node in _native.nodes() if node["alive"] and node["node_id"] != own]
    added: dict[str, int] = {}
    for parts in [here, *others]:
        for name, amount in parts.items():
            added[name] = added.get(name, 0) + max(0, amount)
    return added


def actors(actor_id: str | None = None) -> dict[str, Any]:
    """Tell of all actors by their ids, or of one; of one that nobody knows, nothing."""
    _native.ensure_started()
    found = {
        known: {"ActorID": known, "ActorClassName": class_name, "Name": name, "State": state, "Pid": pid}
        for known, class_name, name, state, pid in _native.status()["actors"]
    }
    return found if actor_id is None else found.get(actor_id, {})


def nodes() -> list[dict[str, Any]]:
    """List the nodes, also those that are gone. A driver's own node, which has nothing to offer, is none of them."""
    _native.ensure_started()
    own = _native.identity()["node_id"]
    known = _native.nodes() or [{**_ALONE, "node_id": own}]
    return [_shown(node, is_here=node["node_id"] == own) for node in known if not node["is_guest"]]


#: What is known of a node that belongs to no cluster.
_ALONE = {"alive": True, "gone": None, "address": None, "name": "", "is_guest": False}


def _shown(node: dict[str, Any], *, is_here: bool) -> dict[str, Any]:
    import socket

    from eagleray._calls.labels import of_node

    host, _, port = (node["address"] or "").rpartition(":")
    ip = host.strip("[]") or get_node_ip_address()
    if is_here:
        status = _native.status()
        resources = {**_amounts(status["total"]), "object_store_memory": float(status["store_capacity"])}
    else:
        resources = _amounts(node["total"])
    return {
        "NodeID": node["node_id"],
        "Alive": node["alive"],
        "alive": node["alive"],
        "DeathReasonMessage": node["gone"] or "",
        "NodeManagerAddress": ip,
        "NodeManagerHostname": socket.gethostname() if is_here else node["name"],
        "NodeManagerPort": int(port or 0),
        "NodeName": node["name"] or ip,
        "ObjectStoreSocketName": "",
        "RayletSocketName": _native.identity()["address"] if is_here else "",
        "Resources": resources if node["alive"] else {},
        "Labels": of_node() if is_here else {**node["labels"], "ray.io/node-id": node["node_id"]},
    }


def get_node_ip_address() -> str:
    """Give the address by which this process's node is known to others: loopback if it is alone."""
    from eagleray._node import facts

    return facts.ip_of(_native.identity()["session_dir"]) if _native.is_joined() else "127.0.0.1"


def get_node_instance_id() -> str:
    """Give the name that a cloud knows this node by: "" where there is none."""
    import os

    return os.environ.get("RAY_CLOUD_INSTANCE_ID", "")


def timeline(filename: str | None = None) -> Any:
    """Say that there is no timeline yet."""
    raise NotImplementedError(
        "timeline() is not available in this version; measure inside of tasks, or profile workers, for example with py-spy"
    )
