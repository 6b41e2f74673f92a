"""Small tasks from one driver, and from several clients at once."""

from __future__ import annotations

from cases.catalog import BATCH, Ray, case
from measure import Job

CLIENTS = 4
TASKS_PER_CLIENT = BATCH // CLIENTS
QUEUED = 20_000


@case("sync task", goal=60_000, goal_times_ray=60)
def sync_task(ray: Ray) -> Job:
    """Submit one task, get its result, then the next."""

    @ray.remote
    def one() -> int:
        return 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(one.remote())

    return job


@case("async tasks, batch of 1,000", amount=BATCH, goal=150_000, goal_times_ray=50)
def async_tasks(ray: Ray) -> Job:
    """Submit a batch, then get all of it."""

    @ray.remote
    def one() -> int:
        return 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get([one.remote() for _ in range(BATCH)])

    return job


@case("nested clients: 4 actors submit 250 tasks each", amount=BATCH, goal_times_ray=50)
def nested_clients(ray: Ray) -> Job:
    """Workers that are clients themselves."""

    @ray.remote
    def one() -> int:
        return 1

    class Client:
        def submit(self, count: int) -> int:
            return sum(ray.get([one.remote() for _ in range(count)]))

    actor = ray.remote(Client)
    clients = [actor.remote() for _ in range(CLIENTS)]

    def job(repeats: int) -> None:
        for _ in range(repeats):
            counts = ray.get([client.submit.remote(TASKS_PER_CLIENT) for client in clients])
            assert sum(counts) == BATCH

    return job


@case("20,000 queued tasks", unit="tasks/s", amount=QUEUED)
def queued_tasks(ray: Ray) -> Job:
    """A backlog far longer than the machine is wide."""

    @ray.remote
    def one() -> int:
        return 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert sum(ray.get([one.remote() for _ in range(QUEUED)])) == QUEUED

    return job
