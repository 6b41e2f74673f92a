"""What the node has: as `eagleray.nodes` and its like."""

from __future__ import annotations

from eagleray._driver.cluster import actors, available_resources, cluster_resources, nodes, timeline

__all__ = ["actors", "available_resources", "cluster_resources", "nodes", "timeline"]
