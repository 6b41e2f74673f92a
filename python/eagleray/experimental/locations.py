"""Tells on which nodes the values of refs lie, and how long they are."""

from __future__ import annotations

from typing import Any

from eagleray import _native
from eagleray._native import ObjectRef

_THERE = ("inline", "stored", "filed")


def get_object_locations(obj_refs: list[ObjectRef[Any]], timeout_ms: int = -1) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Say, by ref, on which nodes its value lies ("node_ids"), its encoded size ("object_size") and whether it is on disk ("did_spill").

    A value that is still to come, that failed or that nobody knows has no nodes and the size None. The node where it was made comes first,
    then those of which a process that holds the ref has read a copy. `timeout_ms` means nothing: nodes answer within a second or are left out.
    """
    refs = _checked(obj_refs)
    found = _known_here(_native.object_table())
    wanted = {ref.hex() for ref in refs}
    if _native.nodes() or any(found.get(name, _UNKNOWN)[0] not in _THERE for name in wanted):
        # Where a value of somebody else's lies is known here only after it was read.
        found = _together(found, _known_to_all(wanted))
    return _shown(refs, found)


def get_local_object_locations(obj_refs: list[ObjectRef[Any]]) -> dict[ObjectRef[Any], dict[str, Any]]:
    """As `get_object_locations`, from what this process knows by itself."""
    return _shown(_checked(obj_refs), _known_here(_native.object_table()))


#: State, encoded size, and numbers of nodes.
_Known = tuple[str, int, list[int]]
_UNKNOWN: _Known = ("pending", 0, [])


def _checked(refs: Any) -> list[ObjectRef[Any]]:
    _native.ensure_started()
    if not isinstance(refs, list) or not all(isinstance(ref, ObjectRef) for ref in refs):
        raise TypeError(f"expected a list of ObjectRef, got {refs!r}")
    return refs


def _known_here(table: list[Any]) -> dict[str, _Known]:
    return {row[0]: (row[1], row[2], row[8]) for row in table}


def _known_to_all(names: set[str]) -> dict[str, _Known]:
    inventory = _native.inventory()
    found: dict[str, _Known] = {}
    rows = [
        row for node in [inventory, *inventory["others"]] for process in node["processes"] for row in process["objects"]
    ]
    for row in rows:
        if row["object_id"] in names:
            found = _together(found, {row["object_id"]: (row["state"], row["bytes"], row["nodes"])})
    return found


def _together(first: dict[str, _Known], second: dict[str, _Known]) -> dict[str, _Known]:
    """Of what two have said of each value: who knows most, and all nodes."""
    both = dict(first)
    for name, (state, size, nodes) in second.items():
        known = both.get(name, _UNKNOWN)
        if known[0] in _THERE:
            state, size = known[:2]
        both[name] = (state, size, list(dict.fromkeys([*known[2], *nodes])))
    return both


def _shown(refs: list[ObjectRef[Any]], found: dict[str, _Known]) -> dict[ObjectRef[Any], dict[str, Any]]:
    names = {node["number"]: node["node_id"] for node in _native.nodes()}
    own = _native.identity()["node_id"]
    shown = {}
    for ref in refs:
        state, size, nodes = found.get(ref.hex(), _UNKNOWN)
        is_there = state in _THERE
        shown[ref] = {
            # A node that is alone knows no numbers.
            "node_ids": [names.get(number, own) for number in nodes] if is_there else [],
            "object_size": size if is_there else None,
            "did_spill": state == "filed",
        }
    return shown
