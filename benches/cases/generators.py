"""Streaming generators: small and large values, read as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases.catalog import BATCH, MIB, Ray, case
from measure import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

LARGE_ITEMS = 100


@case("items of a generator", unit="items/s", amount=BATCH, goal_times_ray=30)
def generator_small(ray: Ray) -> Job:
    """One task yields 1,000 integers; each is got as it comes. The call counts, as it does in a program."""

    @ray.remote
    def count(number: int) -> Iterator[int]:
        # Ray's workers need a generator with send(), which an iterator that is yielded from has not.
        for item in range(number):  # noqa: UP028
            yield item

    def job(repeats: int) -> None:
        for _ in range(repeats):
            last = -1
            for ref in count.remote(BATCH):
                last = ray.get(ref)
            assert last == BATCH - 1

    return job


@case("items of 1 MiB of a generator", unit="items/s", amount=LARGE_ITEMS, goal_times_ray=5)
def generator_large(ray: Ray) -> Job:
    """One task yields 100 arrays of 1 MiB; each is got as it comes and let go."""

    @ray.remote
    def blocks(number: int) -> Iterator[NDArray[np.uint8]]:
        import numpy as np

        block = np.ones(MIB, dtype=np.uint8)
        for _ in range(number):
            yield block

    def job(repeats: int) -> None:
        for _ in range(repeats):
            size = sum(len(ray.get(ref)) for ref in blocks.remote(LARGE_ITEMS))
            assert size == LARGE_ITEMS * MIB

    return job
