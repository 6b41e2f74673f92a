"""How generators are read: wait and what is known of them (G5), and for how long their values are kept (G3, G6, G7)."""

import gc
import os
import time

import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import TaskCancelledError

pytestmark = pytest.mark.usefixtures("ray_session")


@ray.remote
def count(number):
    yield from range(number)


@ray.remote
def by_signs(signs, number):
    """Yields each value only when it is told to."""
    for index in range(number):
        signs.wait(f"go-{index}")
        yield index
    signs.wait("end")


@ray.remote
def hold(signs, name):
    signs.wait(name)
    return name


def kept():
    gc.collect()
    return _native.tally()[0]


def test_G5a_wait_takes_generators_among_refs(signs):
    slow, generator = hold.remote(signs, "slow"), by_signs.remote(signs, 2)
    assert ray.wait([slow, generator], timeout=0.05) == ([], [slow, generator])
    signs.set("go-0")
    assert ray.wait([slow, generator], timeout=30) == ([generator], [slow])
    # It is ready until the value is read, not until it was once waited for.
    assert ray.wait([slow, generator], timeout=30) == ([generator], [slow])
    assert ray.get(next(generator)) == 0
    assert ray.wait([generator], timeout=0.05) == ([], [generator])
    signs.set("slow")
    assert ray.wait([generator, slow], timeout=30) == ([slow], [generator])
    signs.set("go-1")
    signs.set("end")
    ready, rest = ray.wait([generator, slow], num_returns=2, timeout=30)
    assert (ready, rest) == ([generator, slow], [])


def test_G5a_one_generator_twice_is_refused():
    generator = count.remote(1)
    with pytest.raises(ValueError, match="unique ray_waitables"):
        ray.wait([generator, generator])


def test_G5b_the_end_is_ready_too(signs):
    generator = by_signs.remote(signs, 0)
    assert ray.wait([generator], timeout=0.05) == ([], [generator])
    signs.set("end")
    assert ray.wait([generator], timeout=30) == ([generator], [])
    assert list(generator) == []
    assert ray.wait([generator], timeout=30) == ([generator], [])


def test_G5c_completed_tells_of_the_end(signs):
    generator = by_signs.remote(signs, 1)
    end = generator.completed()
    signs.set("go-0")
    assert ray.get(next(generator), timeout=30) == 0
    assert ray.wait([end], timeout=0.05) == ([], [end])
    signs.set("end")
    assert ray.get(end, timeout=30) is None
    assert list(generator) == []


def test_G5c_completed_raises_what_the_generator_raised():
    @ray.remote
    def fails():
        yield 1
        raise ValueError("at the end")

    generator = fails.remote()
    with pytest.raises(ValueError, match="at the end"):
        ray.get(generator.completed(), timeout=30)
    assert ray.get(next(generator)) == 1


def test_G5d_next_ready_tells_whether_next_waits(signs, wait_until):
    generator = by_signs.remote(signs, 1)
    assert not generator.next_ready()
    signs.set("go-0")
    wait_until(generator.next_ready)
    next(generator)
    assert not generator.next_ready()
    signs.set("end")
    ray.get(generator.completed(), timeout=30)
    assert not generator.next_ready()


def test_G5e_is_finished_tells_whether_next_stops(signs):
    generator = by_signs.remote(signs, 1)
    assert not generator.is_finished()
    signs.set("go-0")
    signs.set("end")
    ray.get(generator.completed(), timeout=30)
    assert not generator.is_finished()
    next(generator)
    assert generator.is_finished()
    with pytest.raises(StopIteration):
        next(generator)


def check_cancelled(generator):
    failing = next(generator)
    with pytest.raises(TaskCancelledError):
        ray.get(failing, timeout=30)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(generator)
    with pytest.raises(TaskCancelledError):
        ray.get(generator.completed())


def test_G5f_a_cancelled_generator_raises_once_and_ends():
    @ray.remote
    def endless():
        index = 0
        while True:
            yield index
            index += 1
            time.sleep(0.001)

    generator = endless.remote()
    assert ray.get(next(generator), timeout=30) == 0
    ray.cancel(generator)
    check_cancelled(generator)


def test_G5f_also_if_later_values_have_arrived(signs, wait_until):
    @ray.remote
    def three(signs):
        yield from range(3)
        signs.set("yielded")
        while True:
            time.sleep(0.01)

    generator = three.remote(signs)
    assert ray.get(next(generator), timeout=30) == 0
    signs.wait("yielded")
    wait_until(generator.next_ready)
    ray.cancel(generator)
    check_cancelled(generator)


def test_G5f_before_it_starts(signs):
    holders = [hold.remote(signs, "holders") for _ in range(2)]
    generator = count.remote(3)
    ray.cancel(generator)
    check_cancelled(generator)
    signs.set("holders")
    ray.get(holders, timeout=30)


@pytest.mark.parametrize("is_async", [False, True])
def test_G5f_of_an_actor_s_method(signs, is_async):
    class Sync:
        def endless(self):
            while True:
                yield 1
                time.sleep(0.001)

        def works(self):
            return True

    class Async:
        async def endless(self):
            import asyncio

            while True:
                yield 1
                await asyncio.sleep(0.001)

        async def works(self):
            return True

    actor = ray.remote(Async if is_async else Sync).remote()
    generator = actor.endless.remote()
    assert ray.get(next(generator), timeout=30) == 1
    ray.cancel(generator)
    check_cancelled(generator)
    assert ray.get(actor.works.remote(), timeout=30)


@pytest.mark.parametrize("is_async", [False, True])
def test_G5f_a_generator_that_waits_for_its_reader_is_cancelled(signs, is_async):
    class Sync:
        def endless(self):
            while True:
                yield 1

    class Async:
        async def endless(self):
            while True:
                yield 1

    task = ray.remote(_generator_backpressure_num_objects=1)(_endless)
    actor = ray.remote(Async if is_async else Sync).remote()
    for generator in (task.remote(), actor.endless.options(_generator_backpressure_num_objects=1).remote()):
        assert ray.get(next(generator), timeout=30) == 1
        time.sleep(0.05)
        ray.cancel(generator)
        check_cancelled(generator)


def _endless():
    while True:
        yield 1


def test_G5f_one_that_has_ended_is_left_alone():
    generator = count.remote(2)
    ray.get(generator.completed(), timeout=30)
    ray.cancel(generator)
    assert [ray.get(ref) for ref in generator] == [0, 1]


def test_G6h_a_value_is_freed_as_soon_as_its_ref_is_dropped(wait_until):
    generator = count.remote(1_000)
    ray.get(generator.completed(), timeout=30)
    # One for each value, the end of the stream and the task's end.
    assert kept() == 1_002
    for _ in range(400):
        next(generator)
    wait_until(lambda: kept() == 602, what="what was read being freed")
    ref = next(generator)
    wait_until(lambda: kept() == 602)
    assert ray.get(ref) == 400


def test_G6h_large_values_make_room_as_they_are_dropped():
    @ray.remote
    def blocks(number):
        for index in range(number):
            yield bytes([index % 256]) * (8 << 20)

    ray.shutdown()
    ray.init(num_cpus=2, object_store_memory=200 << 20)
    for index, ref in enumerate(blocks.options(_generator_backpressure_num_objects=4).remote(100)):
        assert ray.get(ref)[:1] == bytes([index % 256])


def test_G3d_dynamic_values_live_as_long_as_something_names_them(wait_until):
    ref = count.options(num_returns="dynamic").remote(10)
    item = list(ray.get(ref, timeout=30))[4]
    assert kept() == 11
    del ref
    wait_until(lambda: kept() == 1, what="all but one being freed")
    assert ray.get(item) == 4


def test_G7a_values_outlive_their_generator(wait_until):
    generator = count.remote(10)
    refs = [next(generator) for _ in range(3)]
    ray.get(generator.completed(), timeout=30)
    del generator
    wait_until(lambda: kept() == 3, what="what was not read being freed")
    assert ray.get(refs) == [0, 1, 2]


def test_G7a_they_can_be_passed_on_when_it_is_gone():
    @ray.remote
    def double(value, refs):
        return 2 * value + ray.get(refs[0])

    refs = list(count.remote(3))
    assert ray.get(double.remote(refs[2], [refs[1]]), timeout=30) == 5


def test_G7a_references_among_the_values_are_kept():
    @ray.remote
    def puts():
        for index in range(3):
            yield [ray.put(index), os.getpid()]

    inner = [ray.get(ref)[0] for ref in puts.remote()]
    assert ray.get(inner, timeout=30) == [0, 1, 2]
