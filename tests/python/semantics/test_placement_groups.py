"""Placement groups: what is set aside, for whom, and what is told of it."""

import asyncio
import pickle
import time

import pytest

import eagleray as ray
from eagleray.exceptions import OwnerDiedError
from eagleray.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from eagleray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

pytestmark = pytest.mark.two_nodes

GROUPED = PlacementGroupSchedulingStrategy


@pytest.fixture
def groups(shared_ray):
    """Makes groups and removes them after the test, when all CPUs must be free again."""
    made = []

    def make(*args, **options):
        made.append(placement_group(*args, **options))
        return made[-1]

    yield make
    for group in made:
        remove_placement_group(group)
    deadline = time.monotonic() + 20
    while cpus_free() != 2:
        assert time.monotonic() < deadline, f"only {cpus_free()} CPUs came back"
        time.sleep(0.01)


def cpus_free():
    return ray.available_resources().get("CPU", 0)


@ray.remote
def where():
    group = get_current_placement_group()
    return None if group is None else group.id.hex()


def test_D6a_no_part_of_a_group_that_does_not_fit_is_taken(groups, wait_until):
    first = groups([{"CPU": 1}])
    assert first.wait(10)
    second = groups([{"CPU": 1}, {"CPU": 1}])
    assert not second.wait(0.2)
    wait_until(lambda: cpus_free() == 1, what="one CPU that is nobody's")
    assert ray.get(where.remote(), timeout=30) is None, "and whoever comes may use it"
    remove_placement_group(first)
    assert second.wait(20)
    assert cpus_free() == 0


def test_D6b_a_group_is_registered_when_its_creation_returns(groups):
    group = groups([{"CPU": 5}], name="large")
    assert get_placement_group("large") == group
    assert placement_group_table(group)["state"] == "PENDING"


def test_D6c_ready_gives_the_group_itself(groups):
    group = groups([{"CPU": 1}])
    assert ray.get(group.ready(), timeout=10) == group


class Half(float):
    """A number of a class that only this process can import."""


def test_D6c_ready_gives_the_group_whatever_its_amounts_are_made_of(groups):
    for amount in (1, 0.5, Half(0.5)):
        group = groups([{"CPU": amount}])
        got = ray.get(group.ready(), timeout=10)
        assert (got, got.bundle_specs, type(got)) == (group, [{"CPU": amount}], type(group))


def test_D6c_ready_pickles_the_group_as_the_user_registered(groups):
    group = groups([{"CPU": 1}])
    kind = type(group)
    ray.util.register_serializer(kind, serializer=lambda group: group.id.hex(), deserializer=lambda id: ("group", id))
    try:
        assert ray.get(group.ready(), timeout=10) == ("group", group.id.hex())
    finally:
        ray.util.deregister_serializer(kind)


def test_D6c_ready_works_with_no_cpu_left(groups):
    group = groups([{"CPU": 2}])
    assert ray.get(group.ready(), timeout=10) == group
    assert cpus_free() == 0
    assert ray.get(group.ready(), timeout=10) == group


def test_D6d_the_ref_can_be_awaited_passed_on_and_waited_for(groups):
    group = groups([{"CPU": 1}])

    async def wait():
        return await group.ready()

    assert asyncio.run(wait()) == group

    @ray.remote
    def take(given, refs):
        return given.id.hex(), ray.get(refs[0]).id.hex()

    ref = group.ready()
    assert ray.get(take.remote(ref, [ref]), timeout=30) == (group.id.hex(), group.id.hex())

    waiting = groups([{"CPU": 5}])
    ready, rest = ray.wait([waiting.ready(), group.ready()], num_returns=1, timeout=10)
    assert len(ready) == len(rest) == 1
    assert not waiting.wait(0.05)


def test_D6f_a_ready_ref_of_a_process_that_died_raises_owner_died_error(groups):
    group = groups([{"CPU": 5}])

    @ray.remote(max_restarts=0)
    class Holder:
        def ref(self):
            return [group.ready()]

    holder = Holder.remote()
    (ref,) = ray.get(holder.ref.remote(), timeout=30)
    ray.kill(holder)
    with pytest.raises(OwnerDiedError):
        ray.get(ref, timeout=30)


def test_D6g_tasks_and_actors_may_be_submitted_before_the_group_is_ready(groups):
    first = groups([{"CPU": 2}])
    assert first.wait(10)
    group = groups([{"CPU": 1}, {"CPU": 1}])
    ref = where.options(scheduling_strategy=GROUPED(group)).remote()

    @ray.remote(num_cpus=1)
    class Inside:
        def where(self):
            return get_current_placement_group().id.hex()

    actor = Inside.options(scheduling_strategy=GROUPED(group)).remote()
    assert ray.wait([ref, actor.where.remote()], timeout=0.2)[0] == []
    remove_placement_group(first)
    assert ray.get([ref, actor.where.remote()], timeout=30) == [group.id.hex()] * 2


def test_D6h_what_runs_inside_is_assigned_plain_resources(groups):
    group = groups([{"CPU": 1}, {"CPU": 1, "memory": 1000}])

    @ray.remote
    def assigned():
        context = ray.get_runtime_context()
        return context.get_assigned_resources(), context.get_placement_group_id()

    for index in (0, 1, -1):
        in_bundle = assigned.options(scheduling_strategy=GROUPED(group, index))
        assert ray.get(in_bundle.remote(), timeout=30) == ({"CPU": 1}, group.id.hex())
    old = assigned.options(placement_group=group, placement_group_bundle_index=1, memory=1000)
    assert ray.get(old.remote(), timeout=30) == ({"CPU": 1, "memory": 1000}, group.id.hex())


def test_D6i_what_is_set_aside_is_for_those_who_name_it(groups):
    group = groups([{"CPU": 2}])
    assert group.wait(10)
    assert cpus_free() == 0
    outside = where.remote()
    assert ray.wait([outside], timeout=0.2)[0] == []
    inside = [where.options(scheduling_strategy=GROUPED(group)).remote() for _ in range(4)]
    assert ray.get(inside, timeout=30) == [group.id.hex()] * 4
    remove_placement_group(group)
    assert ray.get(outside, timeout=30) is None


@pytest.mark.parametrize(
    ("bundles", "options", "text"),
    [
        ([], {}, "must be a non-empty list"),
        ({"CPU": 1}, {}, "must be a non-empty list"),
        ([{"CPU": 0}], {}, "only 0 values"),
        ([{}], {}, "only 0 values"),
        ([{"CPU": 1}], {"strategy": "HEAP"}, "Invalid placement group strategy"),
        ([{"CPU": 1}], {"lifetime": "long"}, "lifetime"),
        ([{"CPU": -1}], {}, "cannot be negative"),
    ],
)
@pytest.mark.usefixtures("shared_ray")
def test_D6j_a_wrong_group_is_refused(bundles, options, text):
    with pytest.raises(ValueError, match=text):
        placement_group(bundles, **options)


def test_D6j_a_wrong_index_and_what_fits_no_bundle_are_refused_at_once(groups):
    group = groups([{"CPU": 1}])
    with pytest.raises(ValueError, match="bundle index 3 is invalid"):
        where.options(scheduling_strategy=GROUPED(group, 3)).remote()
    with pytest.raises(ValueError, match="bundle index 3 is invalid"):
        where.options(placement_group=group, placement_group_bundle_index=3).remote()
    with pytest.raises(ValueError, match="bundle index must be -1"):
        where.options(placement_group_bundle_index=3).remote()
    with pytest.raises(ValueError, match=r"cannot fit into any bundles for the placement group, \[{'CPU': 1"):
        where.options(num_cpus=2, scheduling_strategy=GROUPED(group)).remote()
    with pytest.raises(ValueError, match="cannot fit into"):
        where.options(num_gpus=1, scheduling_strategy=GROUPED(group, 0)).remote()


def test_D6k_a_group_is_equal_to_its_copies(groups):
    group, other = groups([{"CPU": 0.5}]), groups([{"CPU": 0.5}])
    copy = pickle.loads(pickle.dumps(group))
    assert copy == group
    assert hash(copy) == hash(group)
    assert copy != other
    assert {group, copy, other} == {group, other}
    assert (copy.bundle_count, copy.bundle_specs) == (1, [{"CPU": 0.5}])
    assert len(group.id.binary()) == 18


def test_D6l_the_table_tells_all_about_a_group(groups):
    group = groups([{"CPU": 1}, {"CPU": 1, "memory": 1000}], strategy="SPREAD", name="named")
    assert group.wait(10)
    row = placement_group_table(group)
    (node,) = (one["NodeID"] for one in ray.nodes())
    assert (row["state"], row["name"], row["strategy"]) == ("CREATED", "named", "SPREAD")
    assert row["bundles"] == {0: {"CPU": 1}, 1: {"CPU": 1, "memory": 1000}}
    assert row["bundles_to_node_id"] == {0: node, 1: node}
    assert row["stats"]["scheduling_state"] == "FINISHED"
    assert row["stats"]["scheduling_attempt"] == 1
    assert row["stats"]["end_to_end_creation_latency_ms"] >= 0
    waiting = groups([{"CPU": 5}])
    assert placement_group_table(waiting)["stats"]["scheduling_state"] == "NO_RESOURCES"
    remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"
    assert placement_group_table(group)["stats"]["scheduling_state"] == "REMOVED"
    assert placement_group_table()[waiting.id.hex()]["state"] == "PENDING"


def test_D6m_bundles_that_need_several_nodes_wait_for_them(groups):
    apart = groups([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert not apart.wait(0.2)
    assert cpus_free() == 2
    assert groups([{"CPU": 1}], strategy="STRICT_SPREAD").wait(10)
    assert groups([{"CPU": 0.5}, {"CPU": 0.5}], strategy="STRICT_PACK").wait(10)


def test_A2e_in_a_group_a_default_actor_needs_one_cpu_in_a_bundle(groups):
    @ray.remote
    class Plain:
        def assigned(self):
            return ray.get_runtime_context().get_assigned_resources()

    @ray.remote(num_cpus=1)
    class Holding:
        def ping(self):
            return "pong"

    licence = groups([{"memory": 1000}])
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        Plain.options(scheduling_strategy=GROUPED(licence)).remote()
    group = groups([{"CPU": 1}])
    holding = Holding.options(scheduling_strategy=GROUPED(group)).remote()
    assert ray.get(holding.ping.remote(), timeout=30) == "pong"
    plain = Plain.options(scheduling_strategy=GROUPED(group)).remote()
    ref = plain.assigned.remote()
    assert ray.wait([ref], timeout=0.2)[0] == [], "the bundle's only CPU is held"
    ray.kill(holding)
    assert ray.get(ref, timeout=30) == {}
    more = [Plain.options(scheduling_strategy=GROUPED(group)).remote() for _ in range(2)]
    assert ray.get([actor.assigned.remote() for actor in more], timeout=30) == [{}, {}], "none of them holds it"


def test_A13c_a_group_that_cannot_hold_the_actor_is_refused_before_the_lookup(groups):
    @ray.remote
    class Named:
        def ping(self):
            return "pong"

    first = Named.options(name="there", get_if_exists=True).remote()
    assert ray.get(first.ping.remote(), timeout=30) == "pong"
    group = groups([{"CPU": 0.5}])
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        Named.options(name="there", get_if_exists=True, scheduling_strategy=GROUPED(group)).remote()


def test_D1b_a_task_blocked_inside_a_bundle_lends_its_cpu_there(groups):
    group = groups([{"CPU": 1}])

    @ray.remote
    def parent():
        return ray.get(where.remote(), timeout=30), cpus_free()

    captured = parent.options(scheduling_strategy=GROUPED(group, 0, placement_group_capture_child_tasks=True))
    assert ray.get(captured.remote(), timeout=40) == (group.id.hex(), 1)


def test_D7k_children_are_in_the_group_only_if_it_captures_them(groups):
    group = groups([{"CPU": 1}])

    @ray.remote(num_cpus=0)
    def parent():
        return where.options(num_cpus=0).remote()

    def child_is_in(**options):
        started = parent.options(**options).remote()
        return ray.get(ray.get(started, timeout=30), timeout=30)

    for captures in (None, False):
        assert child_is_in(scheduling_strategy=GROUPED(group, 0, captures)) is None
    assert child_is_in(scheduling_strategy=GROUPED(group, 0, True)) == group.id.hex()
    assert child_is_in(placement_group=group, placement_group_capture_child_tasks=True) == group.id.hex()
    assert child_is_in() is None, "a worker that was in a group forgets it"


def test_D7k_actors_pass_their_group_on_too(groups):
    group = groups([{"CPU": 1}])

    @ray.remote(num_cpus=0)
    class Inner:
        def where(self):
            return get_current_placement_group().id.hex()

    @ray.remote(num_cpus=0)
    class Outer:
        def inner(self):
            self.actor = Inner.remote()
            return ray.get([self.actor.where.remote(), where.options(num_cpus=0).remote()])

    captures = GROUPED(group, placement_group_capture_child_tasks=True)
    outer = Outer.options(scheduling_strategy=captures).remote()
    assert ray.get(outer.inner.remote(), timeout=40) == [group.id.hex()] * 2


def test_D7k_a_child_that_fits_no_bundle_is_refused_where_it_is_started(groups):
    group = groups([{"CPU": 1}])

    @ray.remote
    def parent():
        with pytest.raises(ValueError, match="cannot fit into any bundles"):
            where.options(num_cpus=2).remote()
        return "refused"

    captures = GROUPED(group, placement_group_capture_child_tasks=True)
    assert ray.get(parent.options(scheduling_strategy=captures).remote(), timeout=30) == "refused"


def test_D7l_none_and_default_opt_out_of_the_parents_group(groups):
    group = groups([{"CPU": 1}])

    @ray.remote(num_cpus=0)
    def parent():
        outside = where.options(num_cpus=0, placement_group=None)
        default = where.options(num_cpus=0, scheduling_strategy="DEFAULT")
        return ray.get([outside.remote(), default.remote()])

    captures = GROUPED(group, placement_group_capture_child_tasks=True)
    assert ray.get(parent.options(scheduling_strategy=captures).remote(), timeout=40) == [None, None]


@pytest.mark.usefixtures("shared_ray")
def test_D7m_outside_of_groups_there_is_no_current_one():
    assert get_current_placement_group() is None
    assert ray.get_runtime_context().get_placement_group_id() is None
    assert ray.get(where.remote(), timeout=30) is None


# proves: D7k
def test_the_default_group_of_a_strategy_is_the_parents_if_that_captures_its_children(groups):
    """Libraries that have no group of their own name the default one, also where there is none."""
    by_default = PlacementGroupSchedulingStrategy("default", placement_group_capture_child_tasks=True)

    @ray.remote(num_cpus=0)
    def where():
        group = ray.util.get_current_placement_group()
        return None if group is None else group.id

    @ray.remote(num_cpus=1)
    def parent():
        return ray.get(where.options(scheduling_strategy=by_default).remote())

    assert ray.get(where.options(scheduling_strategy=by_default).remote()) is None
    group = groups([{"CPU": 1}])
    inside = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    assert ray.get(parent.options(scheduling_strategy=inside).remote()) == group.id
