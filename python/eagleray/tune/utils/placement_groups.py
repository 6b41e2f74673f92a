"""Where older programs find `PlacementGroupFactory`."""

from eagleray.tune.execution.placement_groups import PlacementGroupFactory

__all__ = ["PlacementGroupFactory"]
