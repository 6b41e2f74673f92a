"""Objects in numbers and under pressure: thousands of references in one, more than the store holds, many that come and go."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from cases.catalog import MIB, Ray, case
from measure import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

REFS = 10_000
STORE_MIB = 200
BLOCK_MIB = 8
# Five times what the store holds.
BLOCKS = 5 * STORE_MIB // BLOCK_MIB
READS = 50
PUTTERS = 4
# What one of four processes keeps alive: four objects, from 1 to 100 MiB.
KEPT_MIB = (1, 100, 10, 30)
KEPT_GIB = sum(KEPT_MIB) / 1024


@case("get of an object that holds 10,000 refs", unit="gets/s", goal_times_ray=20)
def object_of_refs(ray: Ray) -> Job:
    """The refs are made anew by each get, and dropped before the next."""
    ref = ray.put([ray.put(number) for number in range(REFS)])

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert len(ray.get(ref)) == REFS

    return job


@case(
    "random reads of 5 x the store",
    unit="GiB/s",
    amount=READS * BLOCK_MIB / 1024,
    needs_session=False,
    goal_times_ray=3,
)
def reads_beyond_the_store(ray: Ray) -> Job:
    """Arrays of 8 MiB, five times as many as there is room for, read at random and summed up."""
    import numpy as np

    ray.init(num_cpus=2, object_store_memory=STORE_MIB * MIB, log_to_driver=False)
    refs = [ray.put(np.full(BLOCK_MIB * MIB // 8, number, dtype=np.float64)) for number in range(BLOCKS)]
    chance = random.Random(1)

    def job(repeats: int) -> None:
        for _ in range(repeats * READS):
            number = chance.randrange(BLOCKS)
            value: NDArray[np.float64] = ray.get(refs[number])
            assert value.sum() == number * len(value)

    return job


@case(
    "put and drop by 4 processes, 16 live objects of 1 to 100 MiB",
    unit="GiB/s",
    amount=PUTTERS * KEPT_GIB,
    repeats_min=8,
    goal=4,
)
def mixed_put_many_clients(ray: Ray) -> Job:
    """Each of four actors keeps four objects alive and replaces one after the other."""

    class Putter:
        def __init__(self) -> None:
            import numpy as np

            self.arrays = [np.ones(mib * MIB, dtype=np.uint8) for mib in KEPT_MIB]
            self.live = [ray.put(array) for array in self.arrays]

        def replace(self, count: int) -> int:
            for _ in range(count):
                for at, array in enumerate(self.arrays):
                    self.live[at] = ray.put(array)
            return count

    actor = ray.remote(Putter)
    putters = [actor.remote() for _ in range(PUTTERS)]

    def job(repeats: int) -> None:
        ray.get([putter.replace.remote(repeats) for putter in putters])

    return job
