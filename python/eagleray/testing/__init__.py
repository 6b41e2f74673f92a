"""For people who test programs that use eagleray: a look inside the session that runs, and fixtures for pytest.

The fixtures are in `eagleray.testing.fixtures`; docs/testing.md shows both at work.
"""

from __future__ import annotations

import gc
import os
import queue
from dataclasses import dataclass
from typing import Any

from eagleray import _native
from eagleray._cli import memory_report
from eagleray._common.amounts import all_shown
from eagleray._driver import notices

__all__ = [
    "ErrorSubscriber",
    "LogSubscriber",
    "ObjectRow",
    "audit",
    "error_subscriber",
    "global_gc",
    "local_node",
    "log_subscriber",
    "memory_store_size",
    "memory_summary",
    "object_exists",
    "objects",
    "reference_counts",
]


@dataclass(frozen=True)
class ObjectRow:
    """One object that this process knows.

    Attributes:
        id: in hex.
        value: `pending`, `inline` (kept in its owner's process), `stored` (in shared memory) or `failed`.
        size: of the encoded value in bytes, as far as it is known here.
        local: refs in this process.
        submitted: pending tasks, and other values, that use it.
        borrowers: other processes that hold refs.
        is_borrowed: whether another process owns it.
        is_actor: whether it stands for an actor that lives as long as its handles do.
        nodes: numbers of the nodes on which its value lies, as far as it is known here.
    """

    id: str
    value: str
    size: int
    local: int
    submitted: int
    borrowers: int
    is_borrowed: bool
    is_actor: bool
    nodes: list[int]

    @property
    def kind(self) -> str:
        """Why the object is alive, as far as this process knows."""
        if self.is_actor:
            return "ACTOR_HANDLE"
        if self.value == "pending" and not self.is_borrowed:
            return "PENDING"
        if self.submitted:
            return "USED"
        if self.local:
            return "LOCAL_REFERENCE"
        return "BORROWED"


def objects() -> list[ObjectRow]:
    """List the objects that this process knows."""
    return [ObjectRow(*row) for row in _native.object_table()]


def reference_counts() -> dict[str, dict[str, int]]:
    """Count, by the ref's hex, the refs in this process ("local") and the pending tasks and values that use it ("submitted")."""
    return {row.id: {"local": row.local, "submitted": row.submitted} for row in objects() if not row.is_actor}


def object_exists(ref: Any) -> bool:
    """Tell whether the value of this ref lies in shared memory."""
    return any(row.id == ref.hex() and row.value == "stored" for row in objects())


def memory_store_size() -> int:
    """Count the values that are kept in this process, since they are small or errors."""
    return sum(row.value in ("inline", "failed") and not row.is_actor for row in objects())


def memory_summary() -> str:
    """Give a table of the objects that this process knows: id, size, why it is alive, pid."""
    lines = [f"{'Object ID':<56}  {'Size':>12}  {'Reference':<16}  {'Pid':>8}"]
    lines += [
        f"{row.id:<56}  {row.size:>12}  {row.kind:<16}  {os.getpid():>8}"
        for row in sorted(objects(), key=lambda row: -row.size)
    ]
    return "\n".join(lines) + "\n"


def audit() -> list[str]:
    """List what is held anywhere in the cluster: objects, pins, tasks, files, resources. Empty when everything was given back."""
    return memory_report.findings(_native.inventory())


def global_gc() -> None:
    """Collect garbage here, now, and in all workers, soon: refs that hang in cycles are let go."""
    gc.collect()
    _native.collect_everywhere()


def local_node() -> dict[str, Any]:
    """Tell about the node: ids, folder, pid, resources, bytes of shared memory, processes."""
    identity, status = _native.identity(), _native.status()
    return {
        "node_id": identity["node_id"],
        "session_dir": identity["session_dir"],
        "address": identity["address"],
        "pid": status["pid"],
        "resources": all_shown(status["total"]),
        "available": all_shown(status["free"]),
        "store_used": status["store_used"],
        "store_capacity": status["store_capacity"],
        "processes": {pid: role for pid, role, _ in status["processes"]},
    }


class _Subscriber:
    """Keeps what was said since it was made, until somebody polls it."""

    _subscribers: list[Any]

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._hear = self._heard.put
        self._subscribers.append(self._on_event)

    def _on_event(self, *event: Any) -> None:
        self._hear(event)

    def poll(self, timeout: float | None = None) -> Any:
        """Give the next one; None if none comes within so many seconds (by default: if none has come yet)."""
        try:
            event = self._heard.get(timeout=timeout) if timeout else self._heard.get_nowait()
        except queue.Empty:
            return None
        return self._shown(*event)

    def _shown(self, *event: Any) -> Any:
        return event

    def close(self) -> None:
        """Hear no more."""
        if self._on_event in self._subscribers:
            self._subscribers.remove(self._on_event)

    def __enter__(self) -> Any:
        """Give the subscriber itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class ErrorSubscriber(_Subscriber):
    """Warnings that reach the driver, such as that a worker died: `poll` gives (kind, text)."""

    _subscribers = notices.SUBSCRIBERS


class LogSubscriber(_Subscriber):
    """What workers print: `poll` gives {"name", "pid", "is_error", "lines"} as it comes, before repeated lines are left out."""

    _subscribers = notices.LINE_SUBSCRIBERS

    def _shown(self, *event: Any) -> dict[str, Any]:
        return dict(zip(("name", "pid", "is_error", "lines"), event, strict=True))


def error_subscriber() -> ErrorSubscriber:
    """Hear of the warnings that reach this driver from now on. Nothing is heard in a session with `log_to_driver=False`."""
    return ErrorSubscriber()


def log_subscriber() -> LogSubscriber:
    """Hear what workers print from now on. Nothing is heard in a session with `log_to_driver=False`."""
    return LogSubscriber()
