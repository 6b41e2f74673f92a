"""Calls on actors: plain, asyncio, threaded, many to many; and an actor's whole life."""

from __future__ import annotations

import asyncio

from cases.catalog import BATCH, Ray, case
from measure import Job

CALLERS = 4
CALLEES = 4
CALLS_PER_PAIR = 64
THREADS = 4


@case("sync actor call", goal=80_000, goal_times_ray=60)
def sync_actor(ray: Ray) -> Job:
    """One call, its result, the next."""
    return _sync_calls(ray, _plain_actor(ray))


@case("async actor calls, batch of 1,000", amount=BATCH, goal=150_000, goal_times_ray=50)
def async_actor_calls(ray: Ray) -> Job:
    """A batch of calls on one actor, then all results."""
    return _batched_calls(ray, _plain_actor(ray))


@case("asyncio actor, sync call", goal_times_ray=50)
def asyncio_actor_sync(ray: Ray) -> Job:
    """One awaited-for call at a time on an actor with `async def` methods."""
    return _sync_calls(ray, _asyncio_actor(ray))


@case("asyncio actor, batch of 1,000", amount=BATCH, goal_times_ray=50)
def asyncio_actor_batch(ray: Ray) -> Job:
    """A batch of calls on an actor with `async def` methods."""
    return _batched_calls(ray, _asyncio_actor(ray))


@case("threaded actor (max_concurrency=4), batch of 1,000", amount=BATCH, goal_times_ray=50)
def threaded_actor_batch(ray: Ray) -> Job:
    """A batch of calls on an actor with four threads."""

    class Counter:
        def one(self) -> int:
            return 1

    return _batched_calls(ray, ray.remote(max_concurrency=THREADS)(Counter).remote())


@case("awaited actor call", goal=6_700)
def awaited_actor_call(ray: Ray) -> Job:
    """One call, awaited in an event loop of the driver, the next."""
    actor = _plain_actor(ray)

    def job(repeats: int) -> None:
        async def call() -> None:
            for _ in range(repeats):
                await actor.one.remote()

        asyncio.run(call())

    return job


@case("awaited actor calls, gather of 1,000", amount=BATCH)
def gathered_actor_calls(ray: Ray) -> Job:
    """A batch of calls, all awaited at once in an event loop of the driver."""
    actor = _plain_actor(ray)

    def job(repeats: int) -> None:
        async def call() -> None:
            for _ in range(repeats):
                await asyncio.gather(*[actor.one.remote() for _ in range(BATCH)])

        asyncio.run(call())

    return job


@case("actor call, result of its future", goal=6_700)
def future_of_actor_call(ray: Ray) -> Job:
    """One call, the result of its `concurrent.futures.Future`, the next."""
    actor = _plain_actor(ray)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            actor.one.remote().future().result()

    return job


@case("n:n actor calls: 4 actors call 4 actors", amount=CALLERS * CALLEES * CALLS_PER_PAIR, goal_times_ray=50)
def many_to_many(ray: Ray) -> Job:
    """Each caller sends a batch that is spread over all callees."""

    class Callee:
        def one(self) -> int:
            return 1

    class Caller:
        def __init__(self, callees: list[Ray]) -> None:
            self.callees = callees

        def call(self, rounds: int) -> int:
            return sum(ray.get([callee.one.remote() for _ in range(rounds) for callee in self.callees]))

    callee, caller = ray.remote(Callee), ray.remote(Caller)
    callees = [callee.remote() for _ in range(CALLEES)]
    callers = [caller.remote(callees) for _ in range(CALLERS)]

    def job(repeats: int) -> None:
        for _ in range(repeats):
            counts = ray.get([caller.call.remote(CALLS_PER_PAIR) for caller in callers])
            assert sum(counts) == CALLERS * CALLEES * CALLS_PER_PAIR

    return job


@case("actor create + call + kill", unit="actors/s", goal=100, goal_times_ray=50)
def actor_life(ray: Ray) -> Job:
    """An actor made, used once and killed."""

    class Counter:
        def one(self) -> int:
            return 1

    actor_class = ray.remote(Counter)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            actor = actor_class.remote()
            ray.get(actor.one.remote())
            ray.kill(actor)

    return job


def _plain_actor(ray: Ray) -> Ray:
    class Counter:
        def one(self) -> int:
            return 1

    return ray.remote(Counter).remote()


def _asyncio_actor(ray: Ray) -> Ray:
    class Counter:
        async def one(self) -> int:
            return 1

    return ray.remote(Counter).remote()


def _sync_calls(ray: Ray, actor: Ray) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(actor.one.remote())

    return job


def _batched_calls(ray: Ray, actor: Ray) -> Job:
    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get([actor.one.remote() for _ in range(BATCH)])

    return job
