"""Where a task or actor wants to be placed: the values of the option `scheduling_strategy`, beside "DEFAULT" and "SPREAD"."""

from __future__ import annotations

from typing import Any

__all__ = ["NodeAffinitySchedulingStrategy", "PlacementGroupSchedulingStrategy"]


class PlacementGroupSchedulingStrategy:
    """In a bundle of a placement group; -1: in any that has room."""

    def __init__(
        self,
        placement_group: Any,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,  # noqa: FBT001
    ) -> None:
        """Keep group and index; they are checked where the strategy is used."""
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks

    def __repr__(self) -> str:
        """Show the group and the bundle."""
        return f"PlacementGroupSchedulingStrategy({self.placement_group!r}, {self.placement_group_bundle_index})"


class NodeAffinitySchedulingStrategy:
    """On this node; `soft`: elsewhere if it cannot be there."""

    def __init__(
        self,
        node_id: Any,
        soft: bool,  # noqa: FBT001
        _spill_on_unavailable: bool = False,  # noqa: FBT001, FBT002
        _fail_on_unavailable: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Take the node's id in hex, as bytes or as a NodeID."""
        self.node_id: str = node_id if isinstance(node_id, str) else node_id.hex()
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable

    def __repr__(self) -> str:
        """Show the node."""
        return f"NodeAffinitySchedulingStrategy({self.node_id!r}, soft={self.soft})"
