"""Objects: small and large puts and gets, and 1 MiB arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases.catalog import MIB, Ray, case
from measure import Job

# numpy is imported where a case runs: whoever only lists the cases or prints a table needs no numpy.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGE_MIB = 100
LARGE_GIB = LARGE_MIB / 1024
PUTTERS = 4
# Ray puts dozens of arrays at full speed and then several at a twentieth of it, while pages come back from the kernel.
# A round of some 10 GiB sees both; a shorter one sees either, by chance.
ROUND_GIB = 10
LARGE_REPEATS = round(ROUND_GIB / LARGE_GIB)
# Sixteen live objects of mixed size, 400 MiB together; a put replaces the oldest.
MIXED_MIB = (1, 64, 3, 40, 7, 100, 2, 16, 5, 32, 11, 48, 1, 24, 6, 40)
MIXED_GIB = sum(MIXED_MIB) / 1024


def large_array(mib: int = LARGE_MIB) -> NDArray[np.uint8]:
    """An array whose pages are all there, so that reading it costs no page fault."""
    import numpy as np

    return np.ones(mib * MIB, dtype=np.uint8)


@case("small put", unit="puts/s", goal_times_ray=100)
def small_put(ray: Ray) -> Job:
    """Put an integer; the ref is dropped at once."""

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.put(0)

    return job


@case("small get", unit="gets/s", goal_times_ray=50)
def small_get(ray: Ray) -> Job:
    """Get the same small object again and again."""
    ref = ray.put(0)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(ref)

    return job


@case("put of 100 MiB, warm", unit="GiB/s", amount=LARGE_GIB, repeats_min=LARGE_REPEATS, goal=6, goal_times_ray=3)
def large_put(ray: Ray) -> Job:
    """One array put again and again; each object is dropped before the next."""
    array = large_array()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.put(array)

    return job


@case(
    "put, 16 live objects of mixed size",
    unit="GiB/s",
    amount=MIXED_GIB,
    repeats_min=round(ROUND_GIB / MIXED_GIB),
    goal=6,
    goal_times_ray=3,
)
def mixed_put(ray: Ray) -> Job:
    """Sixteen objects stay alive while each in turn is replaced by one of the same size."""
    arrays = [large_array(mib) for mib in MIXED_MIB]
    live = [ray.put(array) for array in arrays]

    def job(repeats: int) -> None:
        for _ in range(repeats):
            for i, array in enumerate(arrays):
                live[i] = ray.put(array)

    return job


@case(
    "put of 100 MiB by 4 processes together",
    unit="GiB/s",
    amount=PUTTERS * LARGE_GIB,
    repeats_min=LARGE_REPEATS // PUTTERS,
    goal=4,
    goal_times_ray=3,
)
def large_put_many_clients(ray: Ray) -> Job:
    """Four actors put their own arrays at the same time."""

    class Putter:
        def __init__(self, size: int) -> None:
            import numpy as np

            self.array = np.ones(size, dtype=np.uint8)

        def put(self, count: int) -> int:
            for _ in range(count):
                ray.put(self.array)
            return count

    actor = ray.remote(Putter)
    putters = [actor.remote(LARGE_MIB * MIB) for _ in range(PUTTERS)]

    def job(repeats: int) -> None:
        ray.get([putter.put.remote(repeats) for putter in putters])

    return job


@case("get of 100 MiB", unit="gets/s", goal=200_000, goal_times_ray=50)
def large_get(ray: Ray) -> Job:
    """Get the same large array again and again, none kept: a view where the system has shared memory, else a copy."""
    ref = ray.put(large_array())
    assert ray.get(ref)[-1] == 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(ref)

    return job


@case("1 MiB argument by value", goal_times_ray=5)
def argument_by_value(ray: Ray) -> Job:
    """A sync task whose array is sent with every call."""

    @ray.remote
    def size(array: NDArray[np.uint8]) -> int:
        return array.nbytes

    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert ray.get(size.remote(array)) == MIB

    return job


@case("1 MiB argument by ref", goal_times_ray=20)
def argument_by_ref(ray: Ray) -> Job:
    """A sync task whose array was put once."""

    @ray.remote
    def size(array: NDArray[np.uint8]) -> int:
        return array.nbytes

    ref = ray.put(large_array(1))

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert ray.get(size.remote(ref)) == MIB

    return job


@case("1 MiB by value to an actor", unit="GiB/s", amount=1 / 1024)
def actor_argument_by_value(ray: Ray) -> Job:
    """A sync call on an actor whose array is sent with it. Beside `put`, which copies no more."""

    class Holder:
        def size(self, array: NDArray[np.uint8]) -> int:
            return array.nbytes

    actor = ray.remote(Holder).remote()
    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert ray.get(actor.size.remote(array)) == MIB

    return job


@case("put of 1 MiB, warm", unit="GiB/s", amount=1 / 1024)
def mib_put(ray: Ray) -> Job:
    """One array put again and again; each object is dropped before the next."""
    array = large_array(1)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.put(array)

    return job
