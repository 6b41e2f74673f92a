"""Where tasks, actors and placement groups go when there are several nodes."""

import os
import time

import pytest

import eagleray as ray
from eagleray.cluster_utils import Cluster
from eagleray.exceptions import ActorUnschedulableError, GetTimeoutError, TaskUnschedulableError
from eagleray.util.placement_group import (
    get_current_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from eagleray.util.scheduling_strategies import (
    DoesNotExist,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

pytestmark = pytest.mark.one_node("it brings clusters of its own")

ZONES = ["north", "south", "west"]
WITHIN = 60


@pytest.fixture(scope="module")
def made():
    if ray.is_initialized():
        ray.shutdown()
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        for zone in ZONES:
            cluster.add_node(num_cpus=2, num_gpus=2 if zone == "west" else 0, labels={"zone": zone})
        cluster.wait_for_nodes()
        cluster.connect()
        yield cluster
    ray.shutdown()


@pytest.fixture
def cluster(made):
    yield made
    wait_until(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"])


def wait_until(holds):
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def at(cluster, zone):
    """The id of the node in this zone."""
    return cluster.list_all_nodes()[1 + ZONES.index(zone)].node_id


def get(refs):
    return ray.get(refs, timeout=WITHIN)


@ray.remote
def where(seconds=0.0):
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()


@ray.remote
def devices():
    return ray.get_runtime_context().get_node_id(), os.environ.get("CUDA_VISIBLE_DEVICES")


@ray.remote
class Somewhere:
    def where(self):
        return ray.get_runtime_context().get_node_id()

    def devices(self):
        return os.environ.get("CUDA_VISIBLE_DEVICES")


def in_group(group, index=-1, **more):
    return PlacementGroupSchedulingStrategy(group, index, **more)


def homes(group):
    return list(placement_group_table(group)["bundles_to_node_id"].values())


@pytest.fixture
def group(cluster):
    """Makes groups, and removes them."""
    groups = []

    def make(bundles, strategy="PACK"):
        groups.append(placement_group(bundles, strategy))
        return groups[-1]

    yield make
    for one in groups:
        remove_placement_group(one)


# proves: D5f
def test_spread_tasks_and_actors_are_on_all_nodes(cluster):
    assert get(where.remote()) == cluster.head_node.node_id, "there is room where it was asked for"
    everywhere = {node.node_id for node in cluster.list_all_nodes()}
    tasks = where.options(scheduling_strategy="SPREAD")
    assert set(get([tasks.remote(0.2) for _ in range(7)])) == everywhere
    actors = [Somewhere.options(scheduling_strategy="SPREAD").remote() for _ in range(4)]
    assert set(get([actor.where.remote() for actor in actors])) == everywhere


def test_affinity_holds_while_the_node_lives(cluster):
    node, nobody = at(cluster, "south"), "ab" * 28
    for soft in (True, False):
        there = NodeAffinitySchedulingStrategy(node, soft=soft)
        # More than the node has cores: they wait for it.
        assert set(get([where.options(scheduling_strategy=there).remote(0.05) for _ in range(6)])) == {node}
        assert get(Somewhere.options(scheduling_strategy=there).remote().where.remote()) == node
    elsewhere = NodeAffinitySchedulingStrategy(nobody, soft=True)
    assert get(where.options(scheduling_strategy=elsewhere).remote())
    assert get(Somewhere.options(scheduling_strategy=elsewhere).remote().where.remote())
    nowhere = NodeAffinitySchedulingStrategy(nobody, soft=False)
    with pytest.raises(TaskUnschedulableError, match="doesn't exist any more"):
        get(where.options(scheduling_strategy=nowhere).remote())
    with pytest.raises(ActorUnschedulableError, match="doesn't exist any more"):
        get(Somewhere.options(scheduling_strategy=nowhere).remote().where.remote())


@pytest.mark.parametrize(
    ("selector", "zones"),
    [
        ({"zone": "south"}, ["south"]),
        ({"zone": "in(south,west)"}, ["south", "west"]),
        ({"zone": "!in(north, south)"}, ["west", None]),
        ({"zone": "!north", "ray.io/node-id": "!nobody"}, ["south", "west", None]),
    ],
)
def test_label_selectors_are_judged_against_every_node(cluster, selector, zones):
    head = cluster.head_node.node_id
    allowed = {at(cluster, zone) if zone else head for zone in zones}
    assert set(get([where.options(label_selector=selector).remote(0.02) for _ in range(8)])) <= allowed
    actors = [Somewhere.options(label_selector=selector).remote() for _ in range(3)]
    assert set(get([actor.where.remote() for actor in actors])) <= allowed


# proves: D5g
def test_fallbacks_and_soft_labels_come_second(cluster):
    fallback = [{"label_selector": {"zone": "east"}}, {"label_selector": {"zone": "west"}}]
    chosen = {"label_selector": {"zone": "up"}, "fallback_strategy": fallback}
    assert get(where.options(**chosen).remote()) == at(cluster, "west")
    assert get(Somewhere.options(**chosen).remote().where.remote()) == at(cluster, "west")
    wanted = NodeLabelSchedulingStrategy({"zone": NotIn("west")}, soft={"zone": In("south")})
    assert get(where.options(scheduling_strategy=wanted).remote()) == at(cluster, "south")
    wanted = NodeLabelSchedulingStrategy({"zone": DoesNotExist()}, soft={"zone": In("south")})
    assert get(where.options(scheduling_strategy=wanted).remote()) == cluster.head_node.node_id


def test_what_no_node_can_hold_waits_and_is_shown_with_the_nearest(cluster):
    task = where.options(label_selector={"zone": "east"}).remote()
    actor = Somewhere.options(num_gpus=3).remote()
    group = placement_group([{"CPU": 2}] * 5, "STRICT_SPREAD")
    with pytest.raises(GetTimeoutError):
        ray.get(task, timeout=0.1)
    assert not group.wait(0.05)

    def shown():
        return "\n".join(cluster.head_node.status()["infeasible"])

    wait_until(lambda: shown().count("\n") == 2)
    assert "1 x task {CPU: 1} on a node with labels zone=east; node" in shown()
    assert "comes nearest and lacks the labels" in shown()
    assert "comes nearest and lacks {GPU: 1}" in shown()
    assert "(STRICT_SPREAD)" in shown()
    node = cluster.add_node(num_cpus=2, num_gpus=3, labels={"zone": "east"})
    assert get(task) == node.node_id
    assert get(actor.where.remote()) == node.node_id
    assert not group.wait(0.05), "the head has one core"
    del actor
    remove_placement_group(group)
    cluster.remove_node(node)
    wait_until(lambda: ray.cluster_resources()["CPU"] == 7)


def test_packed_groups_lie_together_and_strict_ones_apart(cluster, group):
    small = group([{"CPU": 1}, {"CPU": 1}])
    assert small.wait(WITHIN)
    free = ray.available_resources()
    assert free[f"CPU_group_1_{small.id.hex()}"] == 1
    assert free[f"CPU_group_{small.id.hex()}"] == ray.cluster_resources()[f"CPU_group_{small.id.hex()}"] == 2
    assert len(set(homes(small))) == 1
    together = group([{"CPU": 1}, {"CPU": 1}], "STRICT_PACK")
    assert together.wait(WITHIN)
    assert len(set(homes(together))) == 1
    remove_placement_group(small)
    remove_placement_group(together)
    wanted = [{"zone": "south"}, {"zone": "!in(south,north,west)"}]
    labelled = placement_group([{"CPU": 0.1}] * 2, bundle_label_selector=wanted)
    assert labelled.wait(WITHIN)
    assert homes(labelled) == [at(cluster, "south"), cluster.head_node.node_id]
    remove_placement_group(labelled)
    apart = group([{"CPU": 1}] * 4, "STRICT_SPREAD")
    assert apart.wait(WITHIN)
    assert len(set(homes(apart))) == 4
    too_many = group([{"CPU": 0.5}] * 5, "STRICT_SPREAD")
    assert not too_many.wait(0.05)
    assert placement_group_table(too_many)["state"] == "PENDING"
    assert not any(homes(too_many))
    assert group([{"CPU": 0.5}] * 3, "SPREAD").wait(WITHIN)


def test_tasks_and_actors_run_where_their_bundle_is(cluster, group):
    made = group([{"CPU": 1}] * 4, "SPREAD")
    # Before it is there.
    refs = [where.options(scheduling_strategy=in_group(made, index)).remote() for index in range(4)]
    assert get(made.ready()) == made
    assert get(refs) == homes(made)
    actors = [Somewhere.options(num_cpus=1, scheduling_strategy=in_group(made, index)).remote() for index in range(2)]
    assert get([actor.where.remote() for actor in actors]) == homes(made)[:2]
    anywhere = where.options(scheduling_strategy=in_group(made))
    assert set(get([anywhere.remote(0.2) for _ in range(6)])) == set(homes(made)[2:])
    del actors


def test_children_follow_into_a_group_on_other_nodes(cluster, group):
    @ray.remote
    def parent():
        here = get_current_placement_group()
        child = ray.get(where.remote(0.01))
        return here.id.hex(), child, ray.get_runtime_context().get_assigned_resources()

    made = group([{"CPU": 2}, {"CPU": 2}], "STRICT_SPREAD")
    for index in range(2):
        placed = in_group(made, index, placement_group_capture_child_tasks=True)
        found, child, assigned = get(parent.options(scheduling_strategy=placed).remote())
        assert found == made.id.hex()
        assert child in homes(made)
        assert assigned == {"CPU": 1.0}


def test_a_removed_group_takes_what_runs_in_it_along(cluster):
    from eagleray.exceptions import ActorDiedError, TaskPlacementGroupRemoved, WorkerCrashedError

    made = placement_group([{"CPU": 1}] * 3, "STRICT_SPREAD")
    assert made.wait(WITHIN)
    actors = [Somewhere.options(num_cpus=0.5, scheduling_strategy=in_group(made, at)).remote() for at in range(3)]
    get([actor.where.remote() for actor in actors])
    runs = [where.options(num_cpus=0.5, scheduling_strategy=in_group(made, at)).remote(600) for at in range(3)]
    waits = where.options(num_cpus=1, scheduling_strategy=in_group(made)).remote()
    remove_placement_group(made)
    remove_placement_group(made)
    for actor in actors:
        with pytest.raises(ActorDiedError, match="placement group was removed"):
            get(actor.where.remote())
    for ref in [*runs, waits]:
        with pytest.raises((WorkerCrashedError, TaskPlacementGroupRemoved)):
            get(ref)
    with pytest.raises(TaskPlacementGroupRemoved):
        get(where.options(scheduling_strategy=in_group(made, 1)).remote())


# proves: D7j
def test_a_group_whose_node_dies_is_not_whole_until_it_has_another(cluster):
    extra = cluster.add_node(num_cpus=4, labels={"zone": "extra"})
    made = placement_group([{"CPU": 4}, {"CPU": 1}])
    assert made.wait(WITHIN)
    assert homes(made)[0] == extra.node_id
    pinned = where.options(max_retries=-1, scheduling_strategy=in_group(made, 0))
    get(pinned.remote())
    cluster.remove_node(extra, allow_graceful=False)
    wait_until(lambda: placement_group_table(made)["state"] == "RESCHEDULING")
    assert homes(made)[0] == ""
    waits = pinned.remote()
    another = cluster.add_node(num_cpus=4, labels={"zone": "extra"})
    assert get(waits) == another.node_id
    assert placement_group_table(made)["state"] == "CREATED"
    remove_placement_group(made)
    cluster.remove_node(another)
    wait_until(lambda: ray.cluster_resources()["CPU"] == 7)


def test_gpus_of_another_node_are_given_there(cluster, group):
    west = at(cluster, "west")
    one = devices.options(num_gpus=1)
    found = get([one.remote() for _ in range(4)])
    assert {node for node, _ in found} == {west}
    assert {visible for _, visible in found} <= {"0", "1"}
    assert get(devices.options(num_gpus=2).remote()) == (west, "0,1")
    halves = [Somewhere.options(num_gpus=0.5, num_cpus=0).remote() for _ in range(4)]
    assert sorted(get([half.devices.remote() for half in halves])) == ["0", "0", "1", "1"]
    assert "GPU" not in ray.available_resources()
    del halves
    wait_until(lambda: ray.available_resources().get("GPU") == 2)
    made = group([{"GPU": 1}, {"CPU": 1}], "SPREAD")
    assert made.wait(WITHIN)
    in_bundle = devices.options(num_gpus=1, num_cpus=0, scheduling_strategy=in_group(made, 0))
    node, visible = get(in_bundle.remote())
    assert node == west
    assert visible in ("0", "1")


def test_two_shapes_take_turns_on_another_node(cluster):
    selector = {"zone": "south"}
    one, all_of_it = (where.options(num_cpus=count, label_selector=selector) for count in (1, 2))
    for _ in range(10):
        assert get([one.remote(), all_of_it.remote()]) == [at(cluster, "south")] * 2


def test_decisions_can_be_asked_for(cluster):
    get(where.options(label_selector={"zone": "south"}).remote())
    decisions = cluster.head_node.status()["decisions"]
    last = [one for one in decisions if one["what"].startswith("task")][-1]
    assert last["to"] == 3
    assert "only node" in last["why"]
