"""The systems that can be measured, and how each is opened and finds its version of a case."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cases import CASES
from measure import Job

RAY_LIKE = ("eagleray", "ray")
# Peers with an API of their own: the module in `against/` that speaks it.
AGAINST = {
    "monarch": "against.monarch_actors",
    "dask": "against.dask_distributed",
    "multiprocessing": "against.process_pool",
    "processpool": "against.pool_executor",
}
SYSTEMS = (*RAY_LIKE, *AGAINST)


@dataclass(frozen=True)
class Session:
    """A system that is up: what its jobs are given, and the way to end it."""

    handle: Any
    worker_pids: Callable[[Any], set[int]]
    close: Callable[[], None]


def job_of(system: str, name: str) -> Callable[[Any], Job] | None:
    """The system's version of a case: a function that takes the session's handle; None if it cannot express it."""
    if system in RAY_LIKE:
        return CASES[name].prepare
    jobs: dict[str, Callable[[Any], Job]] = importlib.import_module(AGAINST[system]).JOBS
    return jobs.get(name)


def open_session(system: str, *, start: bool = True, address: str | None = None) -> Session:
    """Import the system and, unless the case starts it itself, start it with its default configuration."""
    if system in RAY_LIKE:
        ray = importlib.import_module(system)
        if start:
            ray.init(address)
        return Session(ray, _ray_worker_pids, ray.shutdown if start else _nothing)
    peer = importlib.import_module(AGAINST[system])
    handle, close = peer.open_session() if start else (None, _nothing)
    return Session(handle, peer.worker_pids, close)


def _ray_worker_pids(ray: Any) -> set[int]:
    """The processes that run tasks, found by asking enough slow tasks for their pid."""

    @ray.remote
    def pid() -> int:
        import time

        time.sleep(0.05)
        return os.getpid()

    return set(ray.get([pid.remote() for _ in range(20)]))


def _nothing() -> None:
    pass
