"""Large values between nodes: named, brought when somebody reads them, one copy a node, gone when nobody holds them."""

import os
import time

import numpy as np
import pytest

import eagleray as ray
from eagleray.cluster_utils import Cluster
from eagleray.exceptions import GetTimeoutError, ObjectLostError, OwnerDiedError

pytestmark = pytest.mark.one_node("it brings clusters of its own")

#: So that what waits for ever is a failure, and no hang.
LIMIT = 40
MIB = 2**20
STORE = 96 * MIB


@pytest.fixture
def cluster(no_session):
    """The program's own node has no workers; `left` and `right` have one kind of resource each."""
    with Cluster() as made:
        made.head = made.add_node(num_cpus=1, object_store_memory=STORE)
        made.left = made.add_node(num_cpus=2, resources={"left": 1}, object_store_memory=STORE)
        made.right = made.add_node(num_cpus=2, resources={"right": 1}, object_store_memory=STORE)
        made.connect()
        yield made


def on(side):
    return {"resources": {side: 0.001}, "num_cpus": 0}


@ray.remote
class Actor:
    def make(self, mib, fill=1):
        return np.full(mib * MIB, fill, np.uint8)

    def make_all(self, count, mib):
        for fill in range(count):
            yield np.full(mib * MIB, fill, np.uint8)

    def own(self, mib):
        self.kept = [ray.put(np.full(mib * MIB, 5, np.uint8))]
        return self.kept

    def boxed(self, mib):
        return {"ref": ray.put(np.full(mib * MIB, 6, np.uint8)), "array": np.ones(mib * MIB, np.uint8)}

    def take(self, value):
        return int(value[0]), int(value[-1]), value.nbytes

    def read(self, box):
        value = ray.get(box[0])
        return int(value[0]), int(value[-1]), value.nbytes

    def drop(self):
        self.kept = None

    def pid(self):
        return os.getpid()


def held(cluster):
    """Copies of others' values and values kept for others, over all nodes."""
    found = [node.status() for node in cluster.list_all_nodes()]
    return sum(status["copies"] for status in found), sum(status["kept_for_others"] for status in found)


def test_E8_what_is_put_here_is_read_there_and_its_copies_go_with_it(cluster, wait_until):
    left, right = Actor.options(**on("left")).remote(), Actor.options(**on("right")).remote()
    value = ray.put(np.full(8 * MIB, 3, np.uint8))
    expected = (3, 3, 8 * MIB)
    for _ in range(2):
        for actor in (left, right):
            assert ray.get([actor.take.remote(value), actor.read.remote([value])], timeout=LIMIT) == [expected] * 2
    assert held(cluster) == (2, 0), "one copy a node, however often it is read"
    del value
    wait_until(lambda: held(cluster) == (0, 0))


def test_what_is_made_there_stays_there_until_it_is_read(cluster, wait_until):
    left, right = Actor.options(**on("left")).remote(), Actor.options(**on("right")).remote()
    made = left.make.remote(8)
    ray.wait([made], fetch_local=False, timeout=LIMIT)
    assert held(cluster) == (0, 1)
    assert ray.get(right.take.remote(made), timeout=LIMIT) == (1, 1, 8 * MIB)
    assert held(cluster) == (1, 1), "it went from there to there, and not by way of the program"
    assert ray.get(left.read.remote([made]), timeout=LIMIT)[0] == 1
    assert held(cluster) == (1, 1), "where it lies it needs no copy"
    value = ray.get(made, timeout=LIMIT)
    assert not value.flags.writeable
    assert value.sum() == 8 * MIB
    del made
    wait_until(lambda: held(cluster) == (0, 0))
    assert value.sum() == 8 * MIB, "who looks at a copy keeps it"


def test_O5_wait_with_fetch_local_means_that_it_is_here(cluster):
    left = Actor.options(**on("left")).remote()
    made = [left.make.remote(8) for _ in range(3)]
    ready, rest = ray.wait(made, num_returns=3, timeout=LIMIT, fetch_local=False)
    assert (len(ready), rest, held(cluster)[0]) == (3, [], 0)
    ready, rest = ray.wait(made, num_returns=1, timeout=LIMIT)
    assert len(ready) == 1
    ray.wait(made, num_returns=3, timeout=LIMIT)
    assert held(cluster) == (3, 3), "all of them are brought"


def test_references_in_values_of_other_nodes_are_counted(cluster, wait_until):
    left, right = Actor.options(**on("left")).remote(), Actor.options(**on("right")).remote()
    box = left.boxed.remote(4)
    ray.wait([box], fetch_local=False, timeout=LIMIT)
    time.sleep(0.3)
    # Nobody has read the value that holds the ref; what that names lives all the same.
    inner = ray.get(box, timeout=LIMIT)["ref"]
    del box
    assert ray.get(right.take.remote(inner), timeout=LIMIT) == (6, 6, 4 * MIB)
    assert ray.get(inner, timeout=LIMIT)[0] == 6
    del inner
    wait_until(lambda: held(cluster) == (0, 0))


def test_borrowed_values_and_generators(cluster, wait_until):
    left, right = Actor.options(**on("left")).remote(), Actor.options(**on("right")).remote()
    (owned,) = ray.get(left.own.remote(4), timeout=LIMIT)
    assert ray.get(right.take.remote(owned), timeout=LIMIT) == (5, 5, 4 * MIB)
    assert ray.get(owned, timeout=LIMIT)[0] == 5
    ray.get(left.drop.remote(), timeout=LIMIT)
    del owned
    fills = [
        int(ray.get(item, timeout=LIMIT)[0]) for item in left.make_all.options(num_returns="streaming").remote(6, 2)
    ]
    assert fills == list(range(6))
    wait_until(lambda: held(cluster) == (0, 0))


def test_values_outlive_the_worker_that_made_them(cluster, wait_until):
    left = Actor.options(**on("left")).remote()
    made = left.make.remote(8, 7)
    ray.wait([made], fetch_local=False, timeout=LIMIT)
    ray.kill(left)
    right = Actor.options(**on("right")).remote()
    time.sleep(0.3)
    assert ray.get(right.take.remote(made), timeout=LIMIT) == (7, 7, 8 * MIB)
    assert ray.get(made, timeout=LIMIT)[0] == 7
    del made
    wait_until(lambda: held(cluster) == (0, 0))


def test_more_than_the_stores_hold_crosses_by_way_of_files(cluster, wait_until):
    left, right = Actor.options(**on("left")).remote(), Actor.options(**on("right")).remote()
    # Twice what the store there holds, kept for this program; and the same the other way round at the same time.
    from_left = [left.make.remote(16, fill) for fill in range(12)]
    from_right = [right.make.remote(16, fill) for fill in range(12)]
    ours = [ray.put(np.full(16 * MIB, fill, np.uint8)) for fill in range(12)]
    there = [right.take.remote(value) for value in from_left] + [left.take.remote(value) for value in from_right]
    there += [left.take.remote(value) for value in ours]
    assert ray.get(there, timeout=LIMIT) == [(fill, fill, 16 * MIB) for fill in range(12)] * 3
    for fill, value in enumerate(from_left):
        assert ray.get(value, timeout=LIMIT).max() == fill
    del from_left, from_right, ours, there, value
    wait_until(lambda: held(cluster) == (0, 0))


def test_a_result_that_died_with_its_node_is_made_again(cluster):
    @ray.remote(max_retries=2, resources={"left": 0.001}, num_cpus=0)
    def make(fill):
        return np.full(8 * MIB, fill, np.uint8)

    made = make.remote(4)
    put = ray.put(np.full(8 * MIB, 9, np.uint8))
    right = Actor.options(**on("right")).remote()
    ray.wait([made], fetch_local=False, timeout=LIMIT)
    cluster.add_node(num_cpus=1, resources={"left": 1}, object_store_memory=STORE)
    cluster.remove_node(cluster.left, allow_graceful=False)
    assert ray.get(right.take.remote(made), timeout=LIMIT) == (4, 4, 8 * MIB)
    assert ray.get([made, put], timeout=LIMIT)[0][0] == 4


def test_what_nobody_can_make_again_is_lost_with_its_node_or_read_from_a_copy(cluster):
    left = Actor.options(**on("left")).remote()
    lost, copied = left.make.remote(8, 1), left.make.remote(8, 2)
    right = Actor.options(**on("right")).remote()
    assert ray.get(right.take.remote(copied), timeout=LIMIT)[0] == 2
    ray.wait([lost], fetch_local=False, timeout=LIMIT)
    cluster.remove_node(cluster.left, allow_graceful=False)
    assert ray.get(copied, timeout=LIMIT)[0] == 2, "another node has a copy"
    with pytest.raises((ObjectLostError, OwnerDiedError), match="node 2"):
        ray.get(lost, timeout=LIMIT)


def test_a_source_that_dies_while_its_value_moves(cluster):
    @ray.remote(max_retries=2, resources={"left": 0.001}, num_cpus=0)
    def make():
        return np.full(64 * MIB, 8, np.uint8)

    made = make.remote()
    ray.wait([made], fetch_local=False, timeout=LIMIT)
    cluster.add_node(num_cpus=1, resources={"left": 1}, object_store_memory=STORE)
    right = Actor.options(**on("right")).remote()
    ray.get(right.pid.remote(), timeout=LIMIT)
    taken = right.take.remote(made)
    time.sleep(0.02)
    cluster.remove_node(cluster.left, allow_graceful=False)
    assert ray.get(taken, timeout=LIMIT) == (8, 8, 64 * MIB)


@pytest.mark.parametrize("end", ["process", "node"])
def test_who_dies_leaves_nothing_kept_for_it(cluster, wait_until, end):
    @ray.remote(**on("right"))
    def make():
        return np.ones(8 * MIB, np.uint8)

    @ray.remote(**on("left"))
    class Holder:
        def hold(self):
            self.refs = [make.remote() for _ in range(4)]
            ray.wait(self.refs, num_returns=4, fetch_local=False)

    holder = Holder.remote()
    ray.get(holder.hold.remote(), timeout=LIMIT)
    assert held(cluster) == (0, 4)
    if end == "process":
        ray.kill(holder)
    else:
        cluster.remove_node(cluster.left, allow_graceful=False)
    wait_until(lambda: held(cluster) == (0, 0))


def test_get_with_a_timeout_ends_while_a_value_is_on_its_way(cluster):
    left = Actor.options(**on("left")).remote()
    made = left.make.remote(64)
    ray.wait([made], fetch_local=False, timeout=LIMIT)
    with pytest.raises(GetTimeoutError):
        ray.get(made, timeout=0)
    assert ray.get(made, timeout=LIMIT)[-1] == 1


def test_locations_name_all_nodes_that_have_a_value(cluster):
    from eagleray.experimental import get_object_locations

    left, right = Actor.options(**on("left")).remote(), Actor.options(**on("right")).remote()
    made, small = left.make.remote(4), left.pid.remote()
    ray.wait([made, small], num_returns=2, fetch_local=False, timeout=LIMIT)
    found = get_object_locations([made, small])
    assert found[made]["node_ids"] == [cluster.left.node_id]
    assert found[made]["object_size"] > 4 * MIB
    assert not found[made]["did_spill"]
    assert found[small]["node_ids"] == [cluster.head.node_id], "with its owner"
    ray.get(made, timeout=LIMIT)
    assert get_object_locations([made])[made]["node_ids"] == [cluster.left.node_id, cluster.head.node_id]
    assert ray.get(right.read.remote([made]), timeout=LIMIT)[0] == 1


def test_an_event_loop_goes_on_while_a_value_comes(cluster):
    left = Actor.options(**on("left")).remote()

    @ray.remote(**on("right"))
    class Loop:
        async def read(self, box):
            value = await box[0]
            return int(value[-1])

    loop = Loop.remote()
    made = left.make.remote(32, 3)
    assert ray.get(loop.read.remote([made]), timeout=LIMIT) == 3
