"""Placement groups: resources that are set aside together, for tasks and actors that name them."""

from __future__ import annotations

import pickle
from typing import Any

from eagleray import _native
from eagleray._calls.option_tables import parts_of
from eagleray._calls.placement import amounts_of, check_fits, selected
from eagleray._common.amounts import PARTS
from eagleray._values import pickling
from eagleray._values.ids import PlacementGroupID

__all__ = [
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class PlacementGroup:
    """A handle on a placement group. Copies are equal, and may be sent to tasks and actors."""

    def __init__(self, id: PlacementGroupID, bundle_cache: list[dict[str, float]] | None = None) -> None:
        """Name the group `id`; what its bundles hold is asked for if it is not given."""
        self.id = id
        self.bundle_cache = bundle_cache

    @staticmethod
    def empty() -> PlacementGroup:
        """Give the handle that stands for no group."""
        return PlacementGroup(PlacementGroupID.nil(), [])

    @property
    def is_empty(self) -> bool:
        """Whether this stands for no group."""
        return self.id.is_nil()

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """What each bundle holds."""
        if self.bundle_cache is None:
            found = _native.groups(self.id.binary())
            if not found:
                raise ValueError(f"There is no placement group {self.id.hex()}.")
            self.bundle_cache = [amounts_of(bundle) for bundle in found[0]["bundles"]]
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """How many bundles it has."""
        return len(self.bundle_specs)

    def ready(self) -> Any:
        """Give a ref that becomes this group once all its bundles are set aside. It takes no CPU and no worker."""
        _native.ensure_started()
        return _native.group_ready(self.id.binary(), self, self._pickled_plainly())

    def _pickled_plainly(self) -> bytes | None:
        """Pickle the handle without saying that others know the group, and faster: what `ready()` gives stays here at first.

        None if it takes more than plain pickle.
        """
        if type(self) is not PlacementGroup or pickling.has_registered():
            return None
        for bundle in self.bundle_cache or ():
            for amount in bundle.values():
                if type(amount) is not int and type(amount) is not float:
                    return None
        return pickle.dumps(_Rebuilt(self), 5)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until the bundles are set aside; False if they are not within the time, or the group was removed."""
        ref = self.ready()
        ready, _ = _native.wait([ref], num_returns=1, timeout=timeout_seconds)
        if not ready:
            return False
        from eagleray.exceptions import TaskPlacementGroupRemoved

        try:
            _native.get(ref)
        except TaskPlacementGroupRemoved:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        """Compare the groups, not the handles."""
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        """Hash the group."""
        return hash(self.id)

    def __repr__(self) -> str:
        """Show the id."""
        return f"PlacementGroup({self.id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as id and bundles."""
        _native.share_group(self.id.binary())
        return _rebuild, (self.id.binary(), self.bundle_cache)


class _Rebuilt:
    """Pickles as a handle does."""

    __slots__ = ("handle",)

    def __init__(self, handle: PlacementGroup) -> None:
        self.handle = handle

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.handle.id.binary(), self.handle.bundle_cache)


def _rebuild(id: bytes, bundle_cache: list[dict[str, float]] | None) -> PlacementGroup:
    return PlacementGroup(PlacementGroupID(id), bundle_cache)


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str = "PACK",
    name: str = "",
    lifetime: str | None = None,
    _max_cpu_fraction_per_node: float | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: Any = None,
) -> PlacementGroup:
    """Make a placement group. It is registered when this returns; `ready()` tells when its bundles are set aside."""
    fixed = _checked_bundles(bundles)
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy!r}. Supported strategies are {list(_STRATEGIES)}."
        )
    if lifetime not in (None, "detached"):
        raise ValueError(f"placement group `lifetime` argument must be either `None` or 'detached', not {lifetime!r}")
    if topology_strategy:
        raise NotImplementedError("topology_strategy: there is one node, so that all bundles are near each other")
    _native.ensure_started()
    made = _native.create_group(
        bundles=fixed,
        labels=_select(fixed, bundle_label_selector) if bundle_label_selector else [],
        strategy=strategy,
        name=name or "",
        is_detached=lifetime == "detached",
    )
    if made is None:
        from eagleray.exceptions import RaySystemError

        raise RaySystemError(f"Failed to create placement group {name!r} because name {name!r} already exists.")
    return PlacementGroup(PlacementGroupID(made), [dict(bundle) for bundle in bundles])


def _checked_bundles(bundles: Any) -> list[dict[str, int]]:
    if not isinstance(bundles, list) or not bundles:
        raise ValueError(f"Placement group bundles must be a non-empty list of resource dictionaries, got {bundles!r}.")
    fixed = []
    for bundle in bundles:
        if not isinstance(bundle, dict):
            raise ValueError(
                f"Bundles must be a non-empty list of resource dictionaries, but one of {bundles} is none."
            )
        if not any(bundle.values()):
            raise ValueError(
                f"Bundles cannot be an empty dictionary or resources with only 0 values. Bundles: {bundles}"
            )
        fixed.append({key: parts for key, amount in bundle.items() if (parts := parts_of(key, amount))})
    return fixed


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Remove a group: what runs in it is killed, and its resources are free. Repeating it changes nothing."""
    if not isinstance(placement_group, PlacementGroup):
        raise TypeError(f"remove_placement_group takes a PlacementGroup, not {type(placement_group)}")
    _native.ensure_started()
    _native.remove_group(placement_group.id.binary())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Find a group by its name."""
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    _native.ensure_started()
    found = _native.group_named(_native.identity()["namespace"], placement_group_name)
    if not found:
        raise ValueError(f"Failed to look up placement group with name: {placement_group_name}")
    return _handle(found[0])


def get_current_placement_group() -> PlacementGroup | None:
    """Give the group that the running task or actor is in; None outside of groups, and in a driver."""
    if not _native.is_joined():
        return None
    group = _native.identity()["placement_group_id"]
    return None if group is None else PlacementGroup(PlacementGroupID.from_hex(group))


def _select(bundles: list[dict[str, int]], selectors: list[dict[str, str]]) -> list[list[tuple[str, str, list[str]]]]:
    """Say which labels each bundle's node must have. If there is one node, bundles wait whose labels that does not have."""
    from eagleray._calls import labels

    if len(selectors) not in (1, len(bundles)):
        raise ValueError(
            f"Invalid bundle label selector {selectors}. The length of `bundle_label_selector` should equal the length of "
            f"`bundles`, {len(bundles)}."
        )
    selectors = selectors * (len(bundles) // len(selectors))
    if _native.nodes():
        return [[selected(name, wanted) for name, wanted in (selector or {}).items()] for selector in selectors]
    for bundle, selector in zip(bundles, selectors, strict=True):
        lacking = labels.missing({"label_selector": selector})
        if lacking is not None:
            bundle[f"label {lacking}"] = 10_000
    return []


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Describe one group, or all by their ids in hex."""
    _native.ensure_started()
    if placement_group is not None:
        found = _native.groups(placement_group.id.binary())
        return _row(found[0]) if found else {}
    return {group["id"].hex(): _row(group) for group in _native.groups()}


_SCHEDULING = {
    "PENDING": "NO_RESOURCES",
    "RESCHEDULING": "NO_RESOURCES",
    "CREATED": "FINISHED",
    "REMOVED": "REMOVED",
}


def _row(group: dict[str, Any]) -> dict[str, Any]:
    latency_ms = (group["created_after_us"] or 0) / 1_000
    return {
        "placement_group_id": group["id"].hex(),
        "name": group["name"],
        "bundles": dict(enumerate(amounts_of(bundle) for bundle in group["bundles"])),
        "bundles_to_node_id": {at: node or "" for at, node in enumerate(group["nodes"])},
        "strategy": group["strategy"],
        "state": group["state"],
        "stats": {
            "end_to_end_creation_latency_ms": latency_ms,
            "scheduling_latency_ms": latency_ms,
            "scheduling_attempt": 1,
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": _SCHEDULING[group["state"]],
        },
    }


def _handle(group: dict[str, Any]) -> PlacementGroup:
    return PlacementGroup(PlacementGroupID(group["id"]), [amounts_of(bundle) for bundle in group["bundles"]])


def _check_captured(group_id: bytes, needs: dict[str, int]) -> None:
    """Check what goes into a group only because its parent is there."""
    found = _native.groups(group_id)
    if found:
        amounts = {name: amount if name == "memory" else amount / PARTS for name, amount in needs.items()}
        check_fits(amounts, _handle(found[0]), -1)
