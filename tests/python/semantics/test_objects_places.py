"""Where values lie: rules O10 and O13."""

import gc
import os

import numpy as np
import pytest

import eagleray as ray
from eagleray import _native, testing
from eagleray.experimental import get_local_object_locations, get_object_locations

pytestmark = pytest.mark.usefixtures("shared_ray")

LARGE = 300_000


@ray.remote
def make(size):
    return np.ones(size, dtype=np.uint8)


@ray.remote
def wait_for(signs):
    signs.wait("go")
    return np.ones(LARGE, dtype=np.uint8)


@ray.remote
def fail():
    raise ValueError("no value")


@ray.remote(num_cpus=0)
class Owner:
    def put(self, size):
        return [ray.put(np.ones(size, dtype=np.uint8))]

    def start(self, signs):
        return [wait_for.remote(signs)]

    def locations(self, refs):
        return list(get_object_locations(refs).values())


def place_of(ref):
    (row,) = [row for row in testing.objects() if row.id == ref.hex()]
    return row.value


def test_O10a_small_results_stay_with_their_owner_and_take_no_room_in_the_store():
    gc.collect()
    ray.get(make.remote(LARGE))
    before = _native.status()["store_used"]
    refs = [make.remote(1_000) for _ in range(500)]
    assert all(len(value) == 1_000 for value in ray.get(refs, timeout=30))
    assert {place_of(ref) for ref in refs} == {"inline"}
    assert not any(testing.object_exists(ref) for ref in refs)
    assert _native.status()["store_used"] == before


@pytest.mark.one_node("asks where values lie in the store of the only node")
def test_O10b_large_ones_lie_in_the_store():
    refs = [make.remote(LARGE), ray.put(np.ones(LARGE))]
    ray.wait(refs, num_returns=2)
    assert [place_of(ref) for ref in refs] == ["stored", "stored"]
    assert all(testing.object_exists(ref) for ref in refs)


def test_O10c_a_small_value_reads_the_same_wherever_it_was_put_and_passed():
    @ray.remote
    def give_back(value, refs):
        return value, ray.get(refs[0])

    ref = ray.put({"small": (1, 2)})
    assert ray.get(give_back.remote(ref, [ref]), timeout=30) == ({"small": (1, 2)}, {"small": (1, 2)})


@pytest.mark.one_node("a value lies where it was made, which is another node then")
@pytest.mark.parametrize("how", ["put", "task"])
@pytest.mark.parametrize("size", [100, LARGE])
def test_O13a_a_value_lies_on_this_node_and_has_its_size(how, size):
    ref = ray.put(np.ones(size, dtype=np.uint8)) if how == "put" else make.remote(size)
    ray.wait([ref])
    node_id = ray.get_runtime_context().get_node_id()
    for found in (get_object_locations([ref]), get_local_object_locations([ref])):
        assert list(found) == [ref]
        assert found[ref]["node_ids"] == [node_id]
        assert size < found[ref]["object_size"] < size + 1_000
        assert found[ref]["did_spill"] is False


def test_O13b_one_that_is_still_to_come_has_no_node_and_no_size(signs):
    pending = wait_for.remote(signs)
    ready = ray.put(1)
    found = get_object_locations([pending, ready, pending])
    assert set(found) == {pending, ready}
    assert (found[pending]["node_ids"], found[pending]["object_size"]) == ([], None)
    assert found[ready]["node_ids"]
    signs.set("go")
    ray.wait([pending])
    assert get_object_locations([pending])[pending]["object_size"] > LARGE


def test_O13b_nor_has_one_that_failed():
    ref = fail.remote()
    ray.wait([ref])
    found = get_object_locations([ref])[ref]
    assert (found["node_ids"], found["object_size"]) == ([], None)
    with pytest.raises(ValueError, match="no value"):
        ray.get(ref)


@pytest.mark.one_node("asks where values lie in the store of the only node")
def test_O13c_refs_of_other_owners_are_looked_up_there(signs):
    owner = Owner.remote()
    (ref,) = ray.get(owner.put.remote(LARGE), timeout=30)
    (pending,) = ray.get(owner.start.remote(signs), timeout=30)
    found = get_object_locations([ref, pending])
    assert found[ref]["node_ids"] == [ray.get_runtime_context().get_node_id()]
    assert found[ref]["object_size"] > LARGE
    assert (found[pending]["node_ids"], found[pending]["object_size"]) == ([], None)
    signs.set("go")
    # The other way round: an actor asks about what the driver owns.
    own = make.remote(LARGE)
    ray.wait([own])
    (seen,) = ray.get(owner.locations.remote([own]), timeout=30)
    assert seen == get_object_locations([own])[own]


def test_O13d_anything_but_a_list_of_refs_is_refused():
    for wrong in (ray.put(1), [1], "ref", None):
        with pytest.raises(TypeError, match="list of ObjectRef"):
            get_object_locations(wrong)


@pytest.mark.one_node("asks where values lie in the store of the only node")
def test_O13e_a_value_on_disk_says_so(no_session):
    # The last test here: it ends the session of the others.
    mib = 1 << 20
    context = ray.init(num_cpus=1, object_store_memory=40 * mib)
    refs = [ray.put(np.ones(4 * mib, dtype=np.uint8)) for _ in range(20)]
    assert os.listdir(os.path.join(context["session_dir"], "spill"))
    found = get_object_locations(refs)
    assert len(found) == 20
    assert {one["did_spill"] for one in found.values()} == {True, False}
    assert all(one["node_ids"] and one["object_size"] > 4 * mib for one in found.values())
