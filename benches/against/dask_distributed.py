"""dask's distributed scheduler: a local cluster as `Client()` makes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cases.catalog import BATCH, MIB
from cases.graphs import CHAIN, LEAVES
from cases.objects import large_array
from cases.start import start_job
from cases.tasks import CLIENTS, QUEUED, TASKS_PER_CLIENT
from measure import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_TASK = """
from distributed import Client

if __name__ == "__main__":
    client = Client()
    assert client.submit(int, 1).result() == 1
    print("first result", flush=True)
    client.close()
"""


def open_session() -> tuple[Any, Callable[[], None]]:
    """A client with a local cluster of worker processes."""
    from distributed import Client

    client = Client()

    def close() -> None:
        client.shutdown()

    return client, close


def worker_pids(client: Any) -> set[int]:
    """The cluster's worker processes."""
    client.gather([client.submit(time.sleep, 0.05, pure=False) for _ in range(20)])
    return set(client.run(os.getpid).values())


class Counter:
    """The actor."""

    def one(self) -> int:
        """Return the least that is something."""
        return 1


def one() -> int:
    """Return the least that is something."""
    return 1


def increment(value: int) -> int:
    """One link of the chain."""
    return value + 1


def add(left: int, right: int) -> int:
    """One knot of the tree."""
    return left + right


def count(*values: int) -> int:
    """Number of arguments."""
    return len(values)


def size(array: NDArray[np.uint8]) -> int:
    """Bytes of the argument."""
    return array.nbytes


def submit_as_client(tasks: int) -> int:
    """A task that is a client itself."""
    from distributed import worker_client

    with worker_client() as client:
        return sum(client.gather([client.submit(one, pure=False) for _ in range(tasks)]))


# `pure=False` throughout: dask would otherwise answer equal calls from what it computed before.


def sync_task(client: Any) -> Job:
    """One task at a time."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            client.submit(one, pure=False).result()

    return job


def async_tasks(client: Any) -> Job:
    """A batch, gathered."""
    return _batches(client, BATCH)


def queued_tasks(client: Any) -> Job:
    """A long backlog, gathered."""
    return _batches(client, QUEUED)


def nested_clients(client: Any) -> Job:
    """Tasks that submit tasks."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            futures = [client.submit(submit_as_client, TASKS_PER_CLIENT, pure=False) for _ in range(CLIENTS)]
            assert sum(client.gather(futures)) == BATCH

    return job


def sync_actor(client: Any) -> Job:
    """One call at a time."""
    actor = client.submit(Counter, actor=True).result()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            actor.one().result()

    return job


def async_actor_calls(client: Any) -> Job:
    """A batch of calls, then all results."""
    actor = client.submit(Counter, actor=True).result()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            for future in [actor.one() for _ in range(BATCH)]:
                future.result()

    return job


def wait_one_by_one(client: Any) -> Job:
    """The way to take results as they come is `as_completed`."""
    from distributed import as_completed

    def job(repeats: int) -> None:
        for _ in range(repeats):
            for _future in as_completed([client.submit(one, pure=False) for _ in range(BATCH)]):
                pass

    return job


def ref_arguments(client: Any) -> Job:
    """A task of many futures."""
    futures = client.scatter(list(range(BATCH)))

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert client.submit(count, *futures, pure=False).result() == BATCH

    return job


def chain(client: Any) -> Job:
    """Each task takes the future of the one before."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            future = client.submit(increment, 0, pure=False)
            for _ in range(CHAIN - 1):
                future = client.submit(increment, future, pure=False)
            assert future.result() == CHAIN

    return job


def tree_reduce(client: Any) -> Job:
    """Pairwise sums of futures."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            level = [client.submit(one, pure=False) for _ in range(LEAVES)]
            while len(level) > 1:
                level = [client.submit(add, *pair, pure=False) for pair in zip(level[::2], level[1::2], strict=True)]
            assert level[0].result() == LEAVES

    return job


def small_put(client: Any) -> Job:
    """Scatter is dask's put."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            client.scatter(0, hash=False)

    return job


def small_get(client: Any) -> Job:
    """The result of one future, fetched again and again."""
    return _gets(client.scatter(0, hash=False))


def large_put(client: Any) -> Job:
    """Scatter of the large array."""
    array = large_array()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            client.scatter(array, hash=False)

    return job


def large_get(client: Any) -> Job:
    """The large array, fetched again and again."""
    return _gets(client.scatter(large_array(), hash=False))


def argument_by_value(client: Any) -> Job:
    """The array travels with every task."""
    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert client.submit(size, array, pure=False).result() == MIB

    return job


def argument_by_ref(client: Any) -> Job:
    """The array was scattered once."""
    future = client.scatter(large_array(1), hash=False)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert client.submit(size, future, pure=False).result() == MIB

    return job


def start_to_first_result(_client: Any) -> Job:
    """A fresh interpreter."""
    return start_job(FIRST_TASK)


def _batches(client: Any, tasks: int) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert sum(client.gather([client.submit(one, pure=False) for _ in range(tasks)])) == tasks

    return job


def _gets(future: Any) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            future.result()

    return job


JOBS: dict[str, Callable[[Any], Job]] = {
    job.__name__: job
    for job in (
        sync_task,
        async_tasks,
        nested_clients,
        queued_tasks,
        sync_actor,
        async_actor_calls,
        wait_one_by_one,
        ref_arguments,
        chain,
        tree_reduce,
        small_put,
        small_get,
        large_put,
        large_get,
        argument_by_value,
        argument_by_ref,
        start_to_first_result,
    )
}
