"""Turns the options that say where a task or actor is to be placed into what the core understands."""

from __future__ import annotations

from eagleray._common.amounts import PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: A place: its kind (`any`, `node` or `bundle`), whose id, which bundle (-1: any), whether children follow.
Place = tuple[str, bytes, int, bool]

_ANYWHERE: Place = ("any", b"", -1, False)


def amounts_of(parts: Mapping[str, int]) -> dict[str, float]:
    """Give amounts as users write them."""
    return {name: float(amount) if name == "memory" else amount / PARTS for name, amount in parts.items()}


def place_of(options: Mapping[str, Any], needs: Mapping[str, int]) -> Place | None:
    """Find the place that the options name; None: they name none, so that a parent's group may capture it.

    `needs` is what must be free there, in ten-thousandths.
    """
    strategy = options.get("scheduling_strategy")
    if strategy is not None:
        return _of_strategy(strategy, needs)
    group = options.get("placement_group", "default")
    if group is None:
        return _ANYWHERE
    if group == "default":
        return None
    index = options.get("placement_group_bundle_index")
    return _in_group(group, -1 if index is None else index, options.get("placement_group_capture_child_tasks"), needs)


def _of_strategy(strategy: Any, needs: Mapping[str, int]) -> Place | None:
    if isinstance(strategy, str):
        return _ANYWHERE
    if hasattr(strategy, "placement_group"):
        # As the option of that name: the parent's group, if that captures its children.
        if strategy.placement_group == "default":
            return None
        captures = strategy.placement_group_capture_child_tasks
        return _in_group(strategy.placement_group, strategy.placement_group_bundle_index, captures, needs)
    # What else is asked of a node: see `wish_of`.
    if not hasattr(strategy, "node_id") or strategy.soft:
        return _ANYWHERE
    return ("node", _node_id(strategy), -1, False)


def _node_id(strategy: Any) -> bytes:
    from eagleray._values.ids import NodeID

    try:
        return NodeID.from_hex(strategy.node_id).binary()
    except ValueError as error:
        raise ValueError(f"Invalid node_id {strategy.node_id!r}: give a node's id in hex") from error


#: What is asked of a node beside amounts: whether it is another one each time, the id of the one that it is rather than others, and
#: alternatives of what must hold of labels: the name, what must hold, and of which values.
Wish = tuple[bool, "bytes | None", "list[list[tuple[str, str, list[str]]]]"]


def wish_of(options: Mapping[str, Any]) -> Wish | None:
    """Find what the options ask of a node beside amounts; None: nothing."""
    strategy, selector = options.get("scheduling_strategy"), options.get("label_selector")
    if strategy is None and not selector:
        return None
    spreads, rather = strategy == "SPREAD", None
    if hasattr(strategy, "node_id") and getattr(strategy, "soft", False):
        rather = _node_id(strategy)
    hard, soft = getattr(strategy, "hard", None) or {}, getattr(strategy, "soft", None)
    always = [_operator(name, asked) for name, asked in hard.items()]
    chosen = [selector, *(one["label_selector"] for one in options.get("fallback_strategy") or ())] if selector else []
    alternatives = [always + [selected(name, wanted) for name, wanted in (one or {}).items()] for one in chosen]
    alternatives = alternatives or ([always] if always else [])
    if isinstance(soft, dict) and soft:
        liked = [_operator(name, asked) for name, asked in soft.items()]
        alternatives = [one + liked for one in alternatives or [[]]] + (alternatives or [[]])
    if not spreads and rather is None and not alternatives:
        return None
    return (spreads, rather, alternatives)


def selected(name: str, wanted: str) -> tuple[str, str, list[str]]:
    """Say what must hold of a label that a selector names: `v`, `!v`, `in(a,b)` or `!in(a,b)`."""
    plain = wanted.removeprefix("!")
    several = plain.removeprefix("in(").removesuffix(")") if plain.startswith("in(") else None
    values = [plain] if several is None else [one.strip() for one in several.split(",")]
    return (name, "not in" if wanted.startswith("!") else "in", values)


def _operator(name: str, asked: Any) -> tuple[str, str, list[str]]:
    kind = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "lacks"}[type(asked).__name__]
    return (name, kind, list(getattr(asked, "values", ())))


def _in_group(group: Any, index: int, captures: Any, needs: Mapping[str, int]) -> Place:
    from eagleray._calls.checking import check_bundle_index

    if group is None or group.is_empty:
        check_bundle_index(None, index)
        return _ANYWHERE
    check_bundle_index(group, index)
    check_fits(amounts_of(needs), group, index)
    if captures is None:
        captures = False
    return ("bundle", group.id.binary(), index, bool(captures))


def check_fits(needs: Mapping[str, float], group: Any, index: int) -> None:
    """Check that one of the group's bundles, or the one of this number, can ever hold this."""
    bundles = group.bundle_specs if index == -1 else [group.bundle_specs[index]]
    if any(all(bundle.get(name, 0) >= amount for name, amount in needs.items()) for bundle in bundles):
        return
    wanted = dict(needs)
    if index != -1:
        raise ValueError(
            f"Cannot schedule with the placement group: the resource request {wanted} cannot fit into bundle {index} "
            f"for the placement group, {bundles}"
        )
    raise ValueError(
        f"Cannot schedule with the placement group because the resource request {wanted} cannot fit into any bundles "
        f"for the placement group, {bundles}."
    )
