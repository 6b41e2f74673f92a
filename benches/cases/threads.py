"""Several threads of one driver that each call and wait for the result."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cases.catalog import Ray, case
from measure import Job

THREADS = 4
# Calls of one thread in one repeat, so that handing the work to threads does not count.
CALLS = 250


@case("sync tasks of 4 threads", amount=THREADS * CALLS, goal_times_ray=40)
def threads_of_tasks(ray: Ray) -> Job:
    """Four threads: each submits one task, gets its result, then the next."""

    @ray.remote
    def one() -> int:
        return 1

    def calls(_: int) -> int:
        return sum(ray.get(one.remote()) for _ in range(CALLS))

    return _on_threads(calls)


@case("sync calls of 4 threads on an actor each", amount=THREADS * CALLS, goal_times_ray=40)
def threads_of_actors(ray: Ray) -> Job:
    """Four threads, each with an actor of its own: one call, its result, the next."""

    class Counter:
        def one(self) -> int:
            return 1

    actors = [ray.remote(Counter).remote() for _ in range(THREADS)]

    def calls(thread: int) -> int:
        return sum(ray.get(actors[thread].one.remote()) for _ in range(CALLS))

    return _on_threads(calls)


@case("sync calls of 4 threads on one actor", amount=THREADS * CALLS, goal_times_ray=40)
def threads_of_one_actor(ray: Ray) -> Job:
    """Four threads that share an actor: one call, its result, the next."""

    class Counter:
        def one(self) -> int:
            return 1

    actor = ray.remote(Counter).remote()

    def calls(_: int) -> int:
        return sum(ray.get(actor.one.remote()) for _ in range(CALLS))

    return _on_threads(calls)


def _on_threads(calls: Callable[[int], int]) -> Job:
    pool = ThreadPoolExecutor(THREADS)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert sum(pool.map(calls, range(THREADS))) == THREADS * CALLS

    return job
