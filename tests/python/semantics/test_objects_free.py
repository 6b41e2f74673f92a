"""Values that a program frees by hand: unreadable at once, although refs live on."""

import gc

import numpy as np
import pytest

import eagleray as ray
from eagleray.exceptions import ObjectFreedError
from eagleray.internal import free

pytestmark = pytest.mark.usefixtures("shared_ray")

LARGE = 1_000_000


@ray.remote
def make(size, value=1):
    return np.full(size, value)


@ray.remote(num_cpus=0)
class Holder:
    def take(self, refs):
        self.refs = refs

    def read(self):
        return int(ray.get(self.refs[0], timeout=20)[0])

    def free(self):
        free(self.refs)

    def is_freed(self):
        try:
            ray.get(self.refs[0], timeout=20)
        except ObjectFreedError:
            return True
        return False


@pytest.mark.parametrize("size", [1, LARGE])
@pytest.mark.parametrize("how", ["put", "task"])
def test_a_freed_value_cannot_be_read(size, how):
    ref = ray.put(np.ones(size)) if how == "put" else make.remote(size)
    other = ray.put(np.ones(size))
    ray.get([ref, other])
    free([ref])
    with pytest.raises(ObjectFreedError):
        ray.get(ref, timeout=5)
    with pytest.raises(ray.exceptions.RayTaskError, match="It was freed") as caught:
        ray.get(make.remote(ref), timeout=20)
    assert "Failed to retrieve an object." in str(caught.value), "it is the argument that is meant, not the result"
    assert ray.get(other)[0] == 1
    free(ref)


def test_the_older_name_is_the_same():
    from eagleray._private import internal_api

    assert internal_api.free is free
    assert ray.internal.free is free


def test_only_refs_can_be_freed():
    with pytest.raises(TypeError, match="expects a list of ObjectRef"):
        free(1)
    with pytest.raises(TypeError, match="not an ray.ObjectRef"):
        free([1])


def test_a_view_outlives_its_value():
    ref = ray.put(np.arange(LARGE))
    view = ray.get(ref)
    free([ref], local_only=True)
    others = [ray.put(np.zeros(LARGE, dtype=np.int64)) for _ in range(5)]
    assert (view == np.arange(LARGE)).all()
    del others, view
    gc.collect()


@pytest.mark.parametrize("size", [1, LARGE])
def test_who_borrows_it_cannot_read_it_either(size, wait_until):
    ref = ray.put(np.ones(size))
    holders = [Holder.remote() for _ in range(2)]
    ray.get([holder.take.remote([ref]) for holder in holders])
    # One has read it, and could do so again from what it knows.
    assert ray.get(holders[0].read.remote()) == 1
    free([ref])
    for holder in holders:
        wait_until(lambda holder=holder: ray.get(holder.is_freed.remote()), what="the borrower's failure to read")


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_borrower_may_free_it(size, wait_until):
    ref = ray.put(np.ones(size))
    holder = Holder.remote()
    ray.get(holder.take.remote([ref]))
    assert ray.get(holder.read.remote()) == 1
    ray.get(holder.free.remote())

    def is_freed():
        try:
            ray.get(ref)
        except ObjectFreedError:
            return True
        return False

    wait_until(is_freed)
    assert ray.get(holder.is_freed.remote())


def test_a_call_that_runs_with_it_goes_on(signs):
    @ray.remote(num_cpus=0)
    class Slow:
        def total(self, signs, array):
            signs.set("began")
            signs.wait("go")
            return int(array.sum())

    slow = Slow.remote()
    ref = ray.put(np.ones(LARGE, dtype=np.int64))
    running, queued = slow.total.remote(signs, ref), slow.total.remote(signs, ref)
    signs.wait("began")
    free([ref])
    others = [ray.put(np.zeros(LARGE, dtype=np.int64)) for _ in range(5)]
    signs.set("go")
    assert ray.get([running, queued], timeout=30) == [LARGE, LARGE], "both were on their way with it"
    del others


def test_a_value_that_is_still_to_come_never_does(signs):
    @ray.remote
    def late(signs):
        signs.wait("go")
        return np.ones(LARGE)

    ref = late.remote(signs)
    free([ref])
    with pytest.raises(ObjectFreedError):
        ray.get(ref, timeout=5)
    signs.set("go")
    with pytest.raises(ObjectFreedError):
        ray.get(ref, timeout=5)


def test_room_comes_back_although_refs_live(no_session):
    # The last test here: it ends the session of the others.
    ray.init(num_cpus=1, object_store_memory=100 * 1024 * 1024)
    held = []
    for number in range(40):
        ref = ray.put(np.full(LARGE, number)) if number % 2 else make.remote(LARGE, number)
        assert ray.get(ref)[-1] == number
        free([ref])
        held.append(ref)
    ray.shutdown()
