"""Tells people which objects there are, who holds them and what is left over: `eagleray memory`."""

from __future__ import annotations

import os
import sys
from typing import Any

from eagleray._common.amounts import shown

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
    """Show the largest objects of all processes."""
    rows = [(process, row) for process in inventory["processes"] for row in process["objects"]]
    rows.sort(key=lambda pair: -pair[1]["bytes"])
    head = ("object", "bytes", "value", "owner", "held by", "local", "used", "borrowed", "made at")
    body = [_cells(process, row) for process, row in rows[:limit]]
    lines = _aligned([head, *body])
    count = sum(process["objects_count"] for process in inventory["processes"])
    if count > len(body):
        lines.append(f"... {count - len(body)} more")
    lines += ["", *summary(inventory)]
    return "\n".join(lines)


def _cells(process: dict[str, Any], row: dict[str, Any]) -> tuple[str, ...]:
    value = "actor" if row["is_actor"] else row["state"]
    owner = "-" if row["owner_pid"] is None else str(row["owner_pid"])
    counts = tuple(str(row[name]) for name in ("local", "used", "borrowers"))
    return (row["object_id"], str(row["bytes"]), value, owner, str(process["pid"]), *counts, row["site"] or "-")


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def summary(inventory: dict[str, Any]) -> list[str]:
    """Say what the store and each process hold."""
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
