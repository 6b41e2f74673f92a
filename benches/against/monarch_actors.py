"""Monarch (torchmonarch): Rust actors under Python. It has actors and messages, but no tasks and no object store."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cases.actors import CALLEES, CALLERS, CALLS_PER_PAIR
from cases.catalog import BATCH, MIB
from cases.objects import large_array
from cases.start import start_job
from measure import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_CALL = """
from monarch.actor import Actor, endpoint, this_host

class Counter(Actor):
    @endpoint
    def one(self):
        return 1

process = this_host().spawn_procs({"cores": 1})
assert process.spawn("counter", Counter).one.call_one().get() == 1
print("first result", flush=True)
process.stop().get()
"""

_names = (f"actor_{i}" for i in itertools.count())


def open_session() -> tuple[Any, Callable[[], None]]:
    """The local host; processes are made per actor, as other systems make them."""
    from monarch.actor import this_host

    return this_host(), _nothing


def worker_pids(host: Any) -> set[int]:
    """One process with an actor that has done a few calls."""
    counter = _spawn(host, _counter())
    return {counter.pid.call_one().get() for _ in range(20)}


def _counter() -> type:
    """The plain actor. Classes are made in functions so that they travel by value: workers import nothing of ours."""
    from monarch.actor import Actor, endpoint

    class Counter(Actor):  # type: ignore[misc]
        @endpoint
        def one(self) -> int:
            return 1

        @endpoint
        def bytes_of(self, array: NDArray[np.uint8]) -> int:
            return array.nbytes

        @endpoint
        def pid(self) -> int:
            return os.getpid()

    return Counter


def _async_counter() -> type:
    """The asyncio actor; Monarch does not let one class have both kinds of method."""
    from monarch.actor import Actor, endpoint

    class Counter(Actor):  # type: ignore[misc]
        @endpoint
        async def one(self) -> int:
            return 1

    return Counter


def _caller() -> type:
    """An actor that calls actors."""
    from monarch.actor import Actor, endpoint

    class Caller(Actor):  # type: ignore[misc]
        def __init__(self, callees: list[Any]) -> None:
            self.callees = callees

        @endpoint
        def call(self, rounds: int) -> int:
            futures = [callee.one.call_one() for _ in range(rounds) for callee in self.callees]
            return sum(future.get() for future in futures)

    return Caller


def sync_actor(host: Any) -> Job:
    """One call at a time."""
    return _sync_calls(_spawn(host, _counter()))


def async_actor_calls(host: Any) -> Job:
    """A batch of calls, then all results."""
    return _batched_calls(_spawn(host, _counter()))


def asyncio_actor_sync(host: Any) -> Job:
    """One call at a time on `async def`."""
    return _sync_calls(_spawn(host, _async_counter()))


def asyncio_actor_batch(host: Any) -> Job:
    """A batch of calls on `async def`."""
    return _batched_calls(_spawn(host, _async_counter()))


def many_to_many(host: Any) -> Job:
    """Actors that call actors."""
    callees = [_spawn(host, _counter()) for _ in range(CALLEES)]
    callers = [_spawn(host, _caller(), callees) for _ in range(CALLERS)]

    def job(repeats: int) -> None:
        for _ in range(repeats):
            futures = [caller.call.call_one(CALLS_PER_PAIR) for caller in callers]
            assert sum(future.get() for future in futures) == CALLERS * CALLEES * CALLS_PER_PAIR

    return job


def actor_life(host: Any) -> Job:
    """A process with an actor, called once, stopped."""
    counter = _counter()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            process = host.spawn_procs({"cores": 1})
            process.spawn(next(_names), counter).one.call_one().get()
            process.stop().get()

    return job


def argument_by_value(host: Any) -> Job:
    """The array travels with every call of an actor, as there are no tasks."""
    counter = _spawn(host, _counter())
    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert counter.bytes_of.call_one(array).get() == MIB

    return job


def start_to_first_result(_host: Any) -> Job:
    """A fresh interpreter."""
    return start_job(FIRST_CALL)


def _spawn(host: Any, actor: type, *arguments: Any) -> Any:
    """An actor in a process of its own."""
    return host.spawn_procs({"cores": 1}).spawn(next(_names), actor, *arguments)


def _sync_calls(actor: Any) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            actor.one.call_one().get()

    return job


def _batched_calls(actor: Any) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert sum(future.get() for future in [actor.one.call_one() for _ in range(BATCH)]) == BATCH

    return job


def _nothing() -> None:
    pass


JOBS: dict[str, Callable[[Any], Job]] = {
    job.__name__: job
    for job in (
        sync_actor,
        async_actor_calls,
        asyncio_actor_sync,
        asyncio_actor_batch,
        many_to_many,
        actor_life,
        argument_by_value,
        start_to_first_result,
    )
}
