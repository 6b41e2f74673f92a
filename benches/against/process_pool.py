"""The standard library's multiprocessing: Pool for tasks, a manager's proxy for actors, shared memory for objects."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.managers import BaseManager
from multiprocessing.pool import Pool
from multiprocessing.shared_memory import SharedMemory
from typing import TYPE_CHECKING, Any

from cases.catalog import BATCH, MIB
from cases.objects import large_array
from cases.start import start_job
from cases.tasks import QUEUED
from measure import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_TASK = """
from multiprocessing import Pool

with Pool() as pool:
    assert pool.apply(int, (1,)) == 1
    print("first result", flush=True)
"""


def open_session() -> tuple[Pool, Callable[[], None]]:
    """A pool of one worker per core."""
    pool = multiprocessing.Pool()
    return pool, pool.terminate


def worker_pids(pool: Pool) -> set[int]:
    """The pool's processes."""
    return set(pool.map(_slow_pid, range(20), chunksize=1))


def _slow_pid(_index: int) -> int:
    time.sleep(0.05)
    return os.getpid()


class Counter:
    """The actor: an object in a manager's process."""

    def one(self) -> int:
        """Return the least that is something."""
        return 1


class CounterManager(BaseManager):
    """The process of the actor."""

    if TYPE_CHECKING:

        def counter(self) -> Counter:
            """Registered below."""


CounterManager.register("counter", Counter)


def one() -> int:
    """Return the least that is something."""
    return 1


def size(array: NDArray[np.uint8]) -> int:
    """Bytes of the argument."""
    return array.nbytes


def sync_task(pool: Pool) -> Job:
    """One task at a time."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            pool.apply(one)

    return job


def async_tasks(pool: Pool) -> Job:
    """A batch, then all results."""
    return _batches(pool, BATCH)


def queued_tasks(pool: Pool) -> Job:
    """A long backlog, then all results."""
    return _batches(pool, QUEUED)


def sync_actor(_pool: Pool) -> Job:
    """One call at a time through a proxy; the closure keeps the manager alive."""
    manager = CounterManager()
    manager.start()
    counter = manager.counter()

    def job(repeats: int) -> None:
        assert manager is not None
        for _ in range(repeats):
            counter.one()

    return job


def actor_life(_pool: Pool) -> Job:
    """A manager started, its object called once, the manager shut down."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            with CounterManager() as manager:
                manager.counter().one()

    return job


def large_put(_pool: Pool) -> Job:
    """A fresh block of shared memory per object, as the standard library has no store."""
    array = large_array()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            block = _shared(array)
            block.close()
            block.unlink()

    return job


def large_get(_pool: Pool) -> Job:
    """Open a block by name and see it as an array."""
    import numpy as np

    block = _shared(large_array())
    atexit.register(block.unlink)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            opened = SharedMemory(block.name)
            assert opened.buf is not None
            np.frombuffer(opened.buf, dtype=np.uint8)
            opened.close()

    return job


def argument_by_value(pool: Pool) -> Job:
    """The array is pickled through the pool's pipe."""
    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert pool.apply(size, (array,)) == MIB

    return job


def start_to_first_result(_pool: Pool) -> Job:
    """A fresh interpreter."""
    return start_job(FIRST_TASK)


def _shared(array: NDArray[np.uint8]) -> SharedMemory:
    block = SharedMemory(create=True, size=array.nbytes)
    assert block.buf is not None
    block.buf[: array.nbytes] = array.data
    return block


def _batches(pool: Pool, tasks: int) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert sum(result.get() for result in [pool.apply_async(one) for _ in range(tasks)]) == tasks

    return job


JOBS: dict[str, Callable[[Any], Job]] = {
    job.__name__: job
    for job in (
        sync_task,
        async_tasks,
        queued_tasks,
        sync_actor,
        actor_life,
        large_put,
        large_get,
        argument_by_value,
        start_to_first_result,
    )
}
