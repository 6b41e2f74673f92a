"""Tells people which objects there are, who holds them and what is left over: `eagleray memory`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from eagleray._common.amounts import shown

if TYPE_CHECKING:
    from collections.abc import Callable

#: Files of ours are no news to who asks where a ref was made.
_OWN = os.path.dirname(os.path.abspath(__file__))
_DEPTH_MAX = 64


def site() -> str:
    """Say where the program is: the nearest line that is not ours."""
    frame = sys._getframe(1)
    for _ in range(_DEPTH_MAX):
        name = frame.f_code.co_filename
        if not name.startswith(_OWN):
            return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def table(inventory: dict[str, Any], *, limit: int = 100) -> str:
    """Show the largest objects of all processes, node by node."""
    return "\n".join(_sections(inventory, lambda node: _table_of_node(node, limit)))


def _table_of_node(inventory: dict[str, Any], limit: int) -> list[str]:
    rows = [(process, row) for process in inventory["processes"] for row in process["objects"]]
    rows.sort(key=lambda pair: -pair[1]["bytes"])
    head = ("object", "bytes", "value", "owner", "held by", "local", "used", "borrowed", "made at")
    body = [_cells(process, row) for process, row in rows[:limit]]
    lines = _aligned([head, *body])
    count = sum(process["objects_count"] for process in inventory["processes"])
    if count > len(body):
        lines.append(f"... {count - len(body)} more")
    return [*lines, "", *_summary_of_node(inventory)]


def _sections(inventory: dict[str, Any], lines_of: Callable[[dict[str, Any]], list[str]]) -> list[str]:
    """Put what is to be said of each node below a line that names it. A node alone needs none."""
    if not _is_cluster(inventory):
        return lines_of(inventory)
    lines: list[str] = []
    for node in _nodes(inventory):
        lines += [f"node {node['node']} ({node['name'] or 'unknown'})", *lines_of(node), ""]
    lines += [f"no answer from node {number}: stopped, or very busy" for number in inventory["silent_nodes"]]
    return lines if lines[-1] else lines[:-1]


def _is_cluster(inventory: dict[str, Any]) -> bool:
    return bool(inventory["others"] or inventory["silent_nodes"])


def _nodes(inventory: dict[str, Any]) -> list[dict[str, Any]]:
    """List what the nodes have said, by number."""
    return sorted([inventory, *inventory["others"]], key=lambda node: int(node["node"]))


def _cells(process: dict[str, Any], row: dict[str, Any]) -> tuple[str, ...]:
    value = "actor" if row["is_actor"] else row["state"]
    owner = "-" if row["owner_pid"] is None else str(row["owner_pid"])
    counts = tuple(str(row[name]) for name in ("local", "used", "borrowers"))
    return (row["object_id"], str(row["bytes"]), value, owner, str(process["pid"]), *counts, row["site"] or "-")


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def summary(inventory: dict[str, Any]) -> list[str]:
    """Say what the store and each process hold, node by node."""
    return _sections(inventory, _summary_of_node)


def _summary_of_node(inventory: dict[str, Any]) -> list[str]:
    mib = 2**20
    lines = [
        (
            f"object store: {inventory['store_used'] / mib:.1f} of {inventory['store_capacity'] / mib:.1f} MiB leased, "
            f"{inventory['orphaned'] / mib:.1f} MiB left by processes that are gone"
        ),
        f"on disk: {inventory['files']} files, {inventory['file_bytes'] / mib:.1f} MiB",
    ]
    lines += [_of_process(process) for process in inventory["processes"]]
    if inventory["silent"]:
        lines.append(f"no answer from {', '.join(str(pid) for pid in inventory['silent'])}: stopped, or very busy")
    return lines


def _of_process(process: dict[str, Any]) -> str:
    counts = f"{process['objects_count']} objects, {process['tasks']} tasks, {process['pins']} pins"
    store = f"{process['store_bytes'] / 2**20:.1f} MiB in the store, {process['files']} files"
    return f"process {process['pid']} ({process['role'] or 'unknown'}): {counts}, {store}"


def findings(inventory: dict[str, Any]) -> list[str]:
    """List what is not as it should be when nothing is going on: empty if everything was given back."""
    if not _is_cluster(inventory):
        return _findings_of_node(inventory)
    found = [f"node {node['node']}: {finding}" for node in _nodes(inventory) for finding in _findings_of_node(node)]
    return found + [f"node {number}: it does not answer" for number in inventory["silent_nodes"]]


def _findings_of_node(inventory: dict[str, Any]) -> list[str]:
    found = []
    for process in inventory["processes"]:
        who = f"process {process['pid']} ({process['role'] or 'unknown'})"
        found += [f"{who} keeps {process[what]} {word}" for what, word in _KEPT if process[what]]
    if inventory["orphaned"]:
        found.append(f"{inventory['orphaned']} bytes of the store were left by processes that are gone")
    if inventory["files"]:
        found.append(f"{inventory['files']} files with {inventory['file_bytes']} bytes are on disk")
    for name, total, free in inventory["resources"]:
        if total != free:
            found.append(f"of {name}, {shown(name, free):g} of {shown(name, total):g} are free")
    if inventory["leases_waiting"]:
        found.append(f"{inventory['leases_waiting']} leases wait")
    found += [f"process {pid} does not answer" for pid in inventory["silent"]]
    return found


_KEPT = (("objects_count", "objects"), ("tasks", "tasks"), ("pins", "pins"), ("files", "files"))
