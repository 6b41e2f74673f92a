"""Where this node is."""

from __future__ import annotations

from eagleray._driver.cluster import get_node_instance_id, get_node_ip_address

__all__ = ["get_node_instance_id", "get_node_ip_address"]
