"""Many refs at once: waited for one by one, as arguments, as returns."""

from __future__ import annotations

from cases.catalog import BATCH, Ray, case
from measure import Job

RETURNS = 500


@case("wait one by one over 1,000 tasks", unit="drains/s", goal=50, goal_times_ray=40)
def wait_one_by_one(ray: Ray) -> Job:
    """Submit 1,000 tasks and take each result as `wait` names it; the submission counts, as it does in a program."""

    @ray.remote
    def one() -> int:
        return 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            waiting = [one.remote() for _ in range(BATCH)]
            while waiting:
                _, waiting = ray.wait(waiting, num_returns=1)

    return job


@case("a task of 1,000 ref arguments")
def ref_arguments(ray: Ray) -> Job:
    """All arguments are refs of small puts, made once."""

    @ray.remote
    def count(*values: int) -> int:
        return len(values)

    refs = [ray.put(i) for i in range(BATCH)]

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert ray.get(count.remote(*refs)) == BATCH

    return job


@case("a task of 500 returns")
def many_returns(ray: Ray) -> Job:
    """One task, 500 refs, all of them got."""

    @ray.remote(num_returns=RETURNS)
    def spread() -> tuple[int, ...]:
        return tuple(range(RETURNS))

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert len(ray.get(spread.remote())) == RETURNS

    return job
