"""Where a task or actor wants to be placed: the values of the option `scheduling_strategy`, beside "DEFAULT" and "SPREAD"."""

from __future__ import annotations

from typing import Any

__all__ = [
    "DoesNotExist",
    "Exists",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]


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


class In:
    """The label has one of these values."""

    def __init__(self, *values: str) -> None:
        """Take the values."""
        self.values = _texts(values, type(self).__name__)


class NotIn(In):
    """The label is missing, or has none of these values."""


class Exists:
    """There is such a label."""


class DoesNotExist:
    """There is no such label."""


class NodeLabelSchedulingStrategy:
    """On a node whose labels are as `hard` says, and rather on one whose labels are also as `soft` says."""

    def __init__(self, hard: dict[str, Any], *, soft: dict[str, Any] | None = None) -> None:
        """Check what is asked of each label: `In`, `NotIn`, `Exists` or `DoesNotExist`."""
        self.hard = _asked(hard, "hard")
        self.soft = _asked(soft, "soft")
        if not self.hard and not self.soft:
            raise ValueError("The `hard` and `soft` parameter of NodeLabelSchedulingStrategy cannot both be empty.")


def _texts(values: tuple[Any, ...], operator: str) -> list[str]:
    if not values:
        raise ValueError(
            f"The variadic parameter of the {operator} operator must be a non-empty tuple: "
            f'e.g. {operator}("value1", "value2").'
        )
    for at, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(
                f"Type of value in position {at} for the {operator} operator must be str "
                f'(e.g. {operator}("value1", "value2")) but got {value} of type {type(value)}.'
            )
    return list(values)


def _asked(given: Any, parameter: str) -> dict[str, Any]:
    example = '(e.g. {"key1": In("value1")})'
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ValueError(f"The {parameter} parameter must be a map {example} but got type {type(given)}.")
    for key, value in given.items():
        if not isinstance(key, str):
            raise ValueError(
                f"The map key of the {parameter} parameter must be of type str {example} but got {key} of type {type(key)}."
            )
        if not isinstance(value, (In, Exists, DoesNotExist)):
            raise ValueError(
                f"The map value for key {key} of the {parameter} parameter must be one of the `In`, `NotIn`, `Exists` or "
                f"`DoesNotExist` operator {example} but got {value} of type {type(value)}."
            )
    return dict(given)
