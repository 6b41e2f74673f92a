"""What the node has: as `eagleray.nodes` and its like."""

from __future__ import annotations

from eagleray._driver.cluster import available_resources, cluster_resources, nodes, timeline

__all__ = ["available_resources", "cluster_resources", "nodes", "timeline"]
