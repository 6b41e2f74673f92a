"""What the node has: as `eagleray.nodes` and its like."""

from __future__ import annotations

from eagleray._driver.cluster import actors, available_resources, cluster_resources, nodes, timeline

__all__ = [
    "GlobalState",
    "actors",
    "available_resources",
    "available_resources_per_node",
    "cluster_resources",
    "nodes",
    "state",
    "timeline",
    "total_resources_per_node",
]


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Say what of each node is free, by its id."""
    return {node["NodeID"]: available_resources() for node in nodes()}


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Say what each node has, by its id."""
    return {node["NodeID"]: node["Resources"] for node in nodes()}


class GlobalState:
    """The same as methods."""

    available_resources = staticmethod(available_resources)
    available_resources_per_node = staticmethod(available_resources_per_node)
    cluster_resources = staticmethod(cluster_resources)
    node_table = staticmethod(nodes)
    total_resources_per_node = staticmethod(total_resources_per_node)


state = GlobalState()
