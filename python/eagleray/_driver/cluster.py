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
    return {**_amounts(status["total"]), "object_store_memory": float(status["store_capacity"])}


def available_resources() -> dict[str, float]:
    """Say what of it is free; what is used up is left out.

    Tasks that waited and run on may hold more than there is for a moment: then nothing is free, and not less.
    """
    _native.ensure_started()
    status = _native.status()
    free = {name: max(0, parts) for name, parts in status["free"].items()}
    return {**_amounts(free), "object_store_memory": float(status["store_capacity"] - status["store_used"])}


def actors(actor_id: str | None = None) -> dict[str, Any]:
    """Tell of all actors by their ids, or of one; of one that nobody knows, nothing."""
    _native.ensure_started()
    found = {
        known: {"ActorID": known, "ActorClassName": class_name, "Name": name, "State": state, "Pid": pid}
        for known, class_name, name, state, pid in _native.status()["actors"]
    }
    return found if actor_id is None else found.get(actor_id, {})


def nodes() -> list[dict[str, Any]]:
    """List the nodes."""
    _native.ensure_started()
    from eagleray._calls.labels import of_node

    identity = _native.identity()
    return [
        {
            "NodeID": identity["node_id"],
            "Alive": True,
            "alive": True,
            "NodeManagerAddress": get_node_ip_address(),
            "NodeManagerHostname": __import__("socket").gethostname(),
            "NodeManagerPort": 0,
            "NodeName": get_node_ip_address(),
            "ObjectStoreSocketName": "",
            "RayletSocketName": identity["address"],
            "Resources": cluster_resources(),
            "Labels": of_node(),
        }
    ]


def get_node_ip_address() -> str:
    """Give the address at which processes of this node reach each other: it is one machine."""
    return "127.0.0.1"


def get_node_instance_id() -> str:
    """Give the name that a cloud knows this node by: "" where there is none."""
    import os

    return os.environ.get("RAY_CLOUD_INSTANCE_ID", "")


def timeline(filename: str | None = None) -> Any:
    """Say that there is no timeline yet."""
    raise NotImplementedError(
        "timeline() is not available in this version; measure inside of tasks, or profile workers, for example with py-spy"
    )
