"""Tasks that depend on tasks."""

from __future__ import annotations

from cases.catalog import Ray, case
from measure import Job

CHAIN = 100
LEAVES = 64
TREE_TASKS = LEAVES + LEAVES - 1


@case("chain of 100 dependent tasks", unit="tasks/s", amount=CHAIN, goal_times_ray=40)
def chain(ray: Ray) -> Job:
    """Each task takes the ref of the one before; only the last result is got."""

    @ray.remote
    def increment(value: int) -> int:
        return value + 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ref = increment.remote(0)
            for _ in range(CHAIN - 1):
                ref = increment.remote(ref)
            assert ray.get(ref) == CHAIN

    return job


@case("tree reduce, 64 leaves", unit="tasks/s", amount=TREE_TASKS, goal_times_ray=40)
def tree_reduce(ray: Ray) -> Job:
    """Leaf tasks, then pairwise sums up to the root."""

    @ray.remote
    def leaf() -> int:
        return 1

    @ray.remote
    def add(left: int, right: int) -> int:
        return left + right

    def job(repeats: int) -> None:
        for _ in range(repeats):
            level = [leaf.remote() for _ in range(LEAVES)]
            while len(level) > 1:
                level = [add.remote(*pair) for pair in zip(level[::2], level[1::2], strict=True)]
            assert ray.get(level[0]) == LEAVES

    return job
