"""`eagleray status --watch`: what waits, now and whenever that has changed."""

from __future__ import annotations

import json
import time

from eagleray import _native

Waits = list[tuple[str, str, int]]


def watch(path: str, *, as_json: bool) -> int:
    """Show what waits on the node at this path until Ctrl-C or the node's end."""
    watched = _native.WaitWatch(path)
    try:
        while True:
            try:
                found = watched.next()
            except ConnectionError:
                print("The node has ended.")
                return 0
            if found is not None:
                _show(*found, as_json=as_json)
    except KeyboardInterrupt:
        return 0


def _show(processes: dict[int, Waits], node: Waits, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"time": time.time(), "processes": processes, "node": node}), flush=True)
        return
    lines = [time.strftime("%H:%M:%S")]
    lines += [f"  {who} waits {what}, {_age(ms)}" for who, what, ms in node]
    for pid, waits in processes.items():
        lines += [f"  process {pid}: {who} waits for {what}, {_age(ms)}" for who, what, ms in waits]
    if len(lines) == 1:
        lines.append("  nothing waits for more than a second")
    print("\n".join(lines), flush=True)


def _age(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
