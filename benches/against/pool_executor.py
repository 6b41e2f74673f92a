"""The standard library's concurrent.futures.ProcessPoolExecutor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
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
from concurrent.futures import ProcessPoolExecutor

with ProcessPoolExecutor() as pool:
    assert pool.submit(int, 1).result() == 1
    print("first result", flush=True)
"""


def open_session() -> tuple[ProcessPoolExecutor, Callable[[], None]]:
    """An executor of one worker per core."""
    pool = ProcessPoolExecutor()
    return pool, pool.shutdown


def worker_pids(pool: ProcessPoolExecutor) -> set[int]:
    """The executor's processes."""
    return set(pool.map(_slow_pid, range(20)))


def _slow_pid(_index: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def one() -> int:
    """Return the least that is something."""
    return 1


def size(array: NDArray[np.uint8]) -> int:
    """Bytes of the argument."""
    return array.nbytes


def sync_task(pool: ProcessPoolExecutor) -> Job:
    """One task at a time."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            pool.submit(one).result()

    return job


def async_tasks(pool: ProcessPoolExecutor) -> Job:
    """A batch, then all results."""
    return _batches(pool, BATCH)


def queued_tasks(pool: ProcessPoolExecutor) -> Job:
    """A long backlog, then all results."""
    return _batches(pool, QUEUED)


def wait_one_by_one(pool: ProcessPoolExecutor) -> Job:
    """`wait` names all that are done; they are taken one by one all the same, as Ray's would be."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            waiting = {pool.submit(one) for _ in range(BATCH)}
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                waiting.remove(next(iter(done)))

    return job


def argument_by_value(pool: ProcessPoolExecutor) -> Job:
    """The array is pickled through the executor's pipe."""
    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert pool.submit(size, array).result() == MIB

    return job


def start_to_first_result(_pool: ProcessPoolExecutor) -> Job:
    """A fresh interpreter."""
    return start_job(FIRST_TASK)


def _batches(pool: ProcessPoolExecutor, tasks: int) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert sum(future.result() for future in [pool.submit(one) for _ in range(tasks)]) == tasks

    return job


JOBS: dict[str, Callable[[Any], Job]] = {
    job.__name__: job
    for job in (
        sync_task,
        async_tasks,
        queued_tasks,
        wait_one_by_one,
        argument_by_value,
        start_to_first_result,
    )
}
