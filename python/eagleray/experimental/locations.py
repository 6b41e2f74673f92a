"""Tells on which nodes the values of refs lie, and how long they are."""

from __future__ import annotations

from typing import Any

from eagleray import _native
from eagleray._native import ObjectRef

_THERE = ("inline", "stored", "filed")


def get_object_locations(obj_refs: list[ObjectRef[Any]], timeout_ms: int = -1) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Say, by ref, on which nodes its value lies ("node_ids"), its encoded size ("object_size") and whether it is on disk ("did_spill").

    A value that is still to come, that failed or that nobody knows has no nodes and the size None. Refs that other processes own are
    looked up there. `timeout_ms` means nothing on a single machine, whose processes answer or are gone.
    """
    refs = _checked(obj_refs)
    table = _native.object_table()
    found = _known_here(table)
    own = {row[0] for row in table if not row[6]}
    # Where a value of somebody else's lies is known here only after it was read.
    elsewhere = {ref.hex() for ref in refs if ref.hex() not in own and found.get(ref.hex(), _UNKNOWN)[0] not in _THERE}
    return _shown(refs, {**found, **_known_to_owners(elsewhere)} if elsewhere else found)


def get_local_object_locations(obj_refs: list[ObjectRef[Any]]) -> dict[ObjectRef[Any], dict[str, Any]]:
    """As `get_object_locations`, from what this process knows by itself."""
    return _shown(_checked(obj_refs), _known_here(_native.object_table()))


_UNKNOWN = ("pending", 0)


def _checked(refs: Any) -> list[ObjectRef[Any]]:
    _native.ensure_started()
    if not isinstance(refs, list) or not all(isinstance(ref, ObjectRef) for ref in refs):
        raise TypeError(f"expected a list of ObjectRef, got {refs!r}")
    return refs


def _known_here(table: list[Any]) -> dict[str, tuple[str, int]]:
    return {row[0]: (row[1], row[2]) for row in table}


def _known_to_owners(names: set[str]) -> dict[str, tuple[str, int]]:
    rows = [row for process in _native.inventory()["processes"] for row in process["objects"]]
    return {
        row["object_id"]: (row["state"], row["bytes"]) for row in rows if row["is_owner"] and row["object_id"] in names
    }


def _shown(refs: list[ObjectRef[Any]], found: dict[str, tuple[str, int]]) -> dict[ObjectRef[Any], dict[str, Any]]:
    node_id = _native.identity()["node_id"]
    shown = {}
    for ref in refs:
        state, size = found.get(ref.hex(), _UNKNOWN)
        is_there = state in _THERE
        shown[ref] = {
            "node_ids": [node_id] if is_there else [],
            "object_size": size if is_there else None,
            "did_spill": state == "filed",
        }
    return shown
