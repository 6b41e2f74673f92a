"""Values on their way: order on an actor, a store without room, callers that die before they are answered, values that nobody wants."""

import gc
import os
import threading
import time

import numpy as np
import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import ObjectStoreFullError, RayTaskError, TaskCancelledError, WorkerCrashedError

MIB = 1 << 20


@pytest.fixture
def small_store(no_session):
    """A store of 80 MiB, and nowhere else to go."""
    ray.init(num_cpus=2, object_store_memory=80 * MIB, _system_config={"automatic_object_spilling_enabled": False})


def fill_store():
    """Fill the store to the last small block; returns what holds it."""
    kept = []
    for size in (4 * MIB, 200 << 10, 60 << 10):
        with pytest.raises(ObjectStoreFullError):
            while True:
                kept.append(ray.put(np.zeros(size, dtype=np.uint8)))
    return kept


def used():
    """Bytes of the store in use, after everything dropped was let go."""
    gc.collect()
    _native.tally()
    return _native.status()["store_used"]


@ray.remote
class Keeper:
    def set(self, value):
        self.value = value

    def size(self):
        return None if self.value is None else len(self.value)

    def keep(self, refs, signs, name):
        signs.set(f"{name}-came")
        signs.wait(f"{name}-go")
        self.value = refs

    def read(self):
        return ray.get(self.value[0], timeout=20)

    def blocks(self, signs, size):
        signs.set("computes")
        signs.wait("answer")
        return np.ones(size, dtype=np.uint8)

    def one_block(self):
        return np.ones(MIB, dtype=np.uint8)


def test_a_call_that_needs_room_in_the_store_is_not_overtaken(ray_session):
    keeper = Keeper.remote()
    ray.get(keeper.set.remote(None))
    keeper.set.remote(bytes(20_000))
    assert ray.get(keeper.size.remote()) == 20_000


def test_large_and_small_calls_start_in_order(ray_session):
    @ray.remote
    class Ordered:
        def __init__(self):
            self.seen = []

        def add(self, number, _):
            self.seen.append(number)

        def all(self):
            return self.seen

    ordered = Ordered.remote()
    for number in range(2_000):
        ordered.add.remote(number, bytes(number % 7 * 9_000))
    assert ray.get(ordered.all.remote()) == list(range(2_000))


def test_a_small_return_value_that_finds_no_room_is_an_error(small_store):
    @ray.remote
    def returns(size):
        return bytes(size)

    assert len(ray.get(returns.remote(10))) == 10
    kept = fill_store()
    with pytest.raises(ObjectStoreFullError, match="no room"):
        ray.get(returns.remote(50_000), timeout=60)
    del kept
    gc.collect()
    assert len(ray.get(returns.remote(50_000), timeout=60)) == 50_000


def test_a_put_that_is_too_large_fails_no_other_threads_put(no_session):
    ray.init(num_cpus=2, object_store_memory=200 * MIB, _system_config={"automatic_object_spilling_enabled": False})
    huge, errors, refusals = np.zeros(300 * MIB, dtype=np.uint8), [], []
    is_over = threading.Event()

    def put_huge():
        while not is_over.is_set():
            try:
                ray.put(huge)
            except ObjectStoreFullError as error:
                refusals.append(error)

    def put_small():
        try:
            for _ in range(100):
                [ray.put(np.zeros(6 * MIB, dtype=np.uint8)) for _ in range(5)]
        except ObjectStoreFullError as error:
            errors.append(error)
        is_over.set()

    threads = [threading.Thread(target=put_huge), threading.Thread(target=put_small)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refusals
    assert not errors


def test_return_values_that_were_encoded_before_one_failed_are_freed(small_store):
    @ray.remote(num_returns=2)
    def two():
        return np.zeros(10 * MIB, dtype=np.uint8), threading.Lock()

    # More than the store holds.
    for _ in range(12):
        with pytest.raises(RayTaskError, match="lock"):
            ray.get(two.remote()[0], timeout=60)


def test_a_value_for_a_dead_caller_is_freed(small_store, tmp_path, signs):
    @ray.remote(max_retries=0, num_cpus=0)
    def dies(keeper, signs):
        keeper.blocks.remote(signs, 20 * MIB)
        signs.wait("computes")
        os._exit(1)

    keeper = Keeper.remote()
    # More than the store holds.
    for round_number in range(6):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        signs = type(signs)(folder)
        with pytest.raises(WorkerCrashedError, match="exit code 1"):
            ray.get(dies.remote(keeper, signs))
        signs.set("answer")
        ray.get(keeper.set.remote(None))
    assert ray.get(keeper.blocks.remote(signs, 20 * MIB), timeout=60).nbytes == 20 * MIB


def test_values_of_a_killed_actor_that_came_too_late_are_freed(ray_session, wait_until):
    for round_number in range(3):
        keeper = Keeper.remote()
        ray.get(keeper.set.remote(None))
        refs = [keeper.one_block.remote() for _ in range(100)]
        ray.get(refs[5 + round_number])
        ray.kill(keeper)
        del refs, keeper
        wait_until(lambda: used() == 0)


def test_a_reference_kept_from_a_dead_callers_call_is_counted(no_session, signs):
    ray.init(num_cpus=3)

    @ray.remote(max_retries=0)
    def passes_on_and_dies(keeper, refs, signs):
        keeper.keep.remote(refs, signs, "first")
        signs.wait("first-came")
        os._exit(1)

    keeper = Keeper.remote()
    ref = ray.put("value")
    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(passes_on_and_dies.remote(keeper, [ref], signs))
    signs.set("first-go")
    ray.get(keeper.set.remote(None))
    signs.set("second-go")
    ray.get(keeper.keep.remote([ref], signs, "second"))
    del ref
    gc.collect()
    assert ray.get(keeper.read.remote(), timeout=60) == "value"


@pytest.mark.parametrize("length", [40_000, 70_000])
def test_a_very_long_name_holds_nothing_up(ray_session, length):
    keeper = Keeper.remote()
    ray.get(keeper.set.remote(b"four"))
    refs = [keeper.size.options(name="x" * length).remote(), keeper.size.remote()]
    assert ray.get(refs, timeout=60) == [4, 4]


def test_recursive_cancel_leaves_other_calls_children_alone(no_session, signs):
    ray.init(num_cpus=4)

    @ray.remote
    def quick():
        return 1

    @ray.remote
    def slow(signs):
        signs.set("child-runs")
        signs.wait("child-go")
        return "done"

    @ray.remote(max_concurrency=4)
    class Parent:
        def first(self, signs):
            ray.get([quick.remote() for _ in range(3)])
            signs.set("first-runs")
            signs.wait("never", seconds=30)

        def second(self, signs):
            return ray.get(slow.remote(signs))

    parent = Parent.remote()
    first = parent.first.remote(signs)
    signs.wait("first-runs")
    second = parent.second.remote(signs)
    signs.wait("child-runs")
    ray.cancel(first, recursive=True)
    signs.set("child-go")
    assert ray.get(second, timeout=60) == "done"
    signs.set("never")
    with pytest.raises(TaskCancelledError):
        ray.get(first, timeout=60)


def test_recursive_cancel_reaches_the_children_of_a_coroutine(no_session, signs):
    ray.init(num_cpus=2)

    @ray.remote
    def child(signs):
        signs.set("child-runs")
        while not signs.count("never"):
            time.sleep(0.01)

    @ray.remote
    class Parent:
        async def call(self, signs):
            self.ref = child.remote(signs)
            await self.ref

        async def child_ended(self):
            try:
                await self.ref
            except TaskCancelledError:
                return "cancelled"

    parent = Parent.remote()
    ref = parent.call.remote(signs)
    signs.wait("child-runs")
    ray.cancel(ref, recursive=True)
    assert ray.get(parent.child_ended.remote(), timeout=60) == "cancelled"
