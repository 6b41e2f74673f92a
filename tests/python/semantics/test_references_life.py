"""Who keeps a value, and when it goes: rule R1."""

import gc
import os
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import eagleray as ray
from eagleray import testing
from eagleray.exceptions import ActorDiedError, WorkerCrashedError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]

#: One kind of value stays with its owner, the other lies in the store.
VALUES = {"small": 10, "large": 300_000}
both = pytest.mark.parametrize("size", VALUES.values(), ids=VALUES)


def put(size):
    """A ref, and its name, by which one can ask for it without holding it."""
    ref = ray.put(np.full(size, 7, dtype=np.uint8))
    return ref, ref.hex()


def is_kept(name):
    """Whether its owner, this process, has the value."""
    gc.collect()
    return any(row.id == name for row in testing.objects())


@pytest.fixture
def goes(wait_until):
    """Waits until a value is gone."""
    return lambda name: wait_until(lambda: not is_kept(name), what="a value that nobody holds to go")


@ray.remote(num_cpus=0)
def first(signs, value):
    signs.set("began")
    signs.wait("go")
    return int(value[0])


@ray.remote(num_cpus=0)
def first_inside(signs, held):
    signs.set("began")
    signs.wait("go")
    return int(ray.get(held["deep"][0], timeout=30)[0])


@ray.remote(num_cpus=0)
class Keeper:
    def __init__(self, held=None):
        self.held = held

    def keep(self, held):
        self.held = held

    def read(self):
        return int(ray.get(self.held[0], timeout=30)[0])

    def pass_on(self, other):
        ray.get(other.keep.remote(self.held))

    def wrap(self):
        """The ref inside a value of our own."""
        return [ray.put(self.held)]

    def drop(self):
        self.held = None

    def pid(self):
        return os.getpid()


@both
def test_R1a_local_refs_keep_a_value_and_the_last_one_lets_it_go(size, goes):
    ref, name = put(size)
    other = [ref]
    del ref
    assert is_kept(name)
    assert ray.get(other[0])[0] == 7
    del other
    goes(name)


@both
def test_R1b_an_argument_of_a_pending_task_is_kept(size, signs, goes):
    ref, name = put(size)
    task = first.remote(signs, ref)
    del ref
    signs.wait("began")
    assert is_kept(name)
    signs.set("go")
    assert ray.get(task, timeout=30) == 7
    goes(name)


@both
def test_R1b_also_one_of_a_task_that_waits_for_another_argument(size, signs, goes):
    @ray.remote(num_cpus=0)
    def second(_gate, value):
        return int(value[0])

    ref, name = put(size)
    task = second.remote(first.remote(signs, np.ones(1)), ref)
    del ref
    assert is_kept(name)
    signs.set("go")
    assert ray.get(task, timeout=30) == 7
    goes(name)


@both
def test_R1c_a_ref_deep_inside_an_argument_is_kept(size, signs, goes):
    ref, name = put(size)
    task = first_inside.remote(signs, {"deep": [ref]})
    del ref
    signs.wait("began")
    assert is_kept(name)
    signs.set("go")
    assert ray.get(task, timeout=30) == 7
    goes(name)


@both
def test_R1d_a_ref_that_a_function_captured_outlives_the_function(size, signs):
    def capture():
        ref, name = put(size)

        @ray.remote(num_cpus=0)
        def captures():
            signs.set("began")
            signs.wait("go")
            return int(ray.get(ref, timeout=30)[0])

        return captures, name

    captures, name = capture()
    task = captures.remote()
    del captures
    signs.wait("began")
    assert is_kept(name)
    signs.set("go")
    assert ray.get(task, timeout=30) == 7


@both
def test_R1d_also_before_the_call_has_found_a_worker(size, signs):
    def capture():
        ref, _ = put(size)

        @ray.remote(num_cpus=2)
        def captures():
            return int(ray.get(ref, timeout=30)[0])

        return captures

    blocker = first.options(num_cpus=2).remote(signs, np.ones(1))
    signs.wait("began")
    captures = capture()
    task = captures.remote()
    del captures
    gc.collect()
    assert ray.wait([task], timeout=0)[0] == []
    signs.set("go")
    assert ray.get([blocker, task], timeout=30) == [1, 7]


@both
def test_R1e_a_ref_inside_another_value_is_kept_by_that_value(size, goes):
    ref, name = put(size)
    outer = ray.put({"inner": [ref]})
    outermost = ray.put([outer])
    del ref, outer
    assert is_kept(name)
    (inner,) = ray.get(ray.get(outermost)[0])["inner"]
    del outermost
    assert ray.get(inner)[0] == 7
    del inner
    goes(name)


@both
def test_R1e_also_if_that_value_belongs_to_another_process(size, goes):
    ref, name = put(size)
    keeper = Keeper.remote()
    ray.get(keeper.keep.remote([ref]), timeout=30)
    (outer,) = ray.get(keeper.wrap.remote(), timeout=30)
    ray.get(keeper.drop.remote(), timeout=30)
    del ref
    assert is_kept(name)
    assert ray.get(ray.get(outer, timeout=30)[0], timeout=30)[0] == 7
    del outer
    goes(name)


@both
def test_R1f_whoever_borrows_it_keeps_it_over_several_hops(size, goes):
    ref, name = put(size)
    chain = [Keeper.remote() for _ in range(3)]
    ray.get(chain[0].keep.remote([ref]), timeout=30)
    del ref
    for one, other in pairwise(chain):
        ray.get(one.pass_on.remote(other), timeout=30)
        ray.get(one.drop.remote(), timeout=30)
        assert is_kept(name)
        assert ray.get(other.read.remote(), timeout=30) == 7
    ray.get(chain[-1].drop.remote(), timeout=30)
    goes(name)


@both
@pytest.mark.parametrize("how", ["plain", "nested"])
def test_R1g_arguments_of_a_constructor_are_kept_for_a_restart(size, how, goes, wait_until):
    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
    class Made:
        def __init__(self, held):
            value = ray.get(held[0], timeout=30) if isinstance(held, list) else held
            self.seen = int(value[0])

        def seen_by(self):
            return self.seen, os.getpid()

    ref, name = put(size)
    made = Made.remote(ref if how == "plain" else [ref])
    del ref
    _, before = ray.get(made.seen_by.remote(), timeout=30)
    assert is_kept(name)
    os.kill(before, 9)

    def is_new(actor):
        seen, pid = ray.get(actor.seen_by.remote(), timeout=30)
        return seen == 7 and pid != before

    wait_until(partial(is_new, made), what="a new life with the same argument")
    del made
    goes(name)


@both
def test_R1h_a_borrower_that_dies_holds_nothing(size, goes):
    ref, name = put(size)
    keeper = Keeper.remote()
    ray.get(keeper.keep.remote([ref]), timeout=30)
    del ref
    assert is_kept(name)
    pid = ray.get(keeper.pid.remote(), timeout=30)
    os.kill(pid, 9)
    with pytest.raises(ActorDiedError, match="signal 9"):
        ray.get(keeper.read.remote(), timeout=30)
    goes(name)


@both
def test_R1h_nor_does_one_that_dies_in_the_middle_of_a_call(size, goes):
    @ray.remote(num_cpus=0, max_retries=0)
    def dies(held):
        ray.get(held[0], timeout=30)
        os._exit(1)

    ref, name = put(size)
    task = dies.remote([ref])
    del ref
    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(task, timeout=30)
    goes(name)


@both
@pytest.mark.parametrize("how", ["plain", "nested"])
def test_R1i_a_task_that_failed_holds_nothing(size, how, goes):
    @ray.remote(num_cpus=0)
    def fails(held):
        raise ValueError(len(held))

    ref, name = put(size)
    task = fails.remote(ref if how == "plain" else [ref])
    del ref
    with pytest.raises(ValueError, match=r"\d"):
        ray.get(task, timeout=30)
    # Its error is still held, and holds nothing of the call.
    goes(name)
    del task


@both
def test_R1j_an_input_goes_although_the_output_is_held(size, goes):
    @ray.remote(num_cpus=0)
    def make(size):
        return np.full(size, 7, dtype=np.uint8)

    @ray.remote(num_cpus=0)
    def small_of(value):
        return int(value[0])

    source = make.remote(size)
    name = source.hex()
    output = small_of.remote(source)
    del source
    assert ray.get(output, timeout=30) == 7
    goes(name)
    assert ray.get(output) == 7
