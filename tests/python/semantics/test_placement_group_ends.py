"""How placement groups end, and what ends with them."""

import time

import pytest

import eagleray as ray
from eagleray.exceptions import (
    ActorUnschedulableError,
    RayActorError,
    RaySystemError,
    TaskPlacementGroupRemoved,
    WorkerCrashedError,
)
from eagleray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from eagleray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

GROUPED = PlacementGroupSchedulingStrategy


def cpus_free():
    return ray.available_resources().get("CPU", 0)


@pytest.fixture
def all_free(shared_ray, wait_until):
    yield
    wait_until(lambda: cpus_free() == 2, what="all CPUs free")


@ray.remote(num_cpus=1)
class Actor:
    def ping(self):
        return "pong"


@pytest.mark.usefixtures("all_free")
def test_D7a_removing_twice_does_no_harm(wait_until):
    group = placement_group([{"CPU": 2}])
    assert group.wait(10)
    for _ in range(3):
        remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"
    waiting = placement_group([{"CPU": 5}])
    remove_placement_group(waiting)
    remove_placement_group(waiting)


@pytest.mark.usefixtures("all_free")
def test_D6e_after_removal_ready_raises():
    waiting = placement_group([{"CPU": 5}])
    early = waiting.ready()
    assert ray.wait([early], timeout=0.05)[0] == []
    remove_placement_group(waiting)
    for ref in (early, waiting.ready()):
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(ref, timeout=30)
    assert not waiting.wait(5)


def test_D6e_several_refs_that_wait_for_one_group_all_become_ready():
    first = placement_group([{"CPU": 2}])
    assert first.wait(30)
    second = placement_group([{"CPU": 2}])
    refs = [second.ready() for _ in range(5)]
    assert ray.wait(refs, timeout=0.05)[0] == []
    remove_placement_group(first)
    assert [group.id for group in ray.get(refs, timeout=30)] == [second.id] * 5
    remove_placement_group(second)


@ray.remote(num_cpus=0)
def remove(group):
    remove_placement_group(get_placement_group(group) if isinstance(group, str) else group)


@pytest.mark.usefixtures("all_free")
@pytest.mark.parametrize("way", ["handle", "ref", "name"])
def test_D6e_after_another_process_has_removed_the_group_ready_raises(way):
    group = placement_group([{"CPU": 1}], name="shared" if way == "name" else "")
    ray.get(remove.remote({"handle": group, "ref": group.ready(), "name": "shared"}[way]), timeout=30)
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(group.ready(), timeout=30)


@pytest.mark.usefixtures("all_free")
def test_D6e_after_a_task_inside_has_removed_the_group_ready_raises():
    group = placement_group([{"CPU": 1}])
    strategy = GROUPED(group, placement_group_capture_child_tasks=True)

    @ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
    def remove_own():
        from eagleray.util import get_current_placement_group

        remove_placement_group(get_current_placement_group())

    with pytest.raises((TaskPlacementGroupRemoved, WorkerCrashedError)):
        ray.get(remove_own.remote(), timeout=30)
        # It may have ended before it was ended.
        ray.get(group.ready(), timeout=30)
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(group.ready(), timeout=30)


@pytest.mark.usefixtures("all_free")
def test_D7a_whatever_its_maker_does_after_a_removal_finds_the_group_removed():
    """A group in which nothing can be is removed without waiting for the node: no question may overtake that."""
    for _ in range(50):
        group = placement_group([{"CPU": 2}])
        ready = group.ready()
        assert ray.get(ready, timeout=30) == group
        remove_placement_group(group)
        assert placement_group_table(group)["state"] == "REMOVED"
        assert cpus_free() == 2
        # What was ready once stays so; who asks now is told.
        assert ray.get(ready, timeout=30) == group
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(group.ready(), timeout=30)
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(remove.options(scheduling_strategy=GROUPED(group)).remote(None), timeout=30)


@ray.remote(num_cpus=0)
def place(group):
    """Put an actor into the group that came as the value of a ref."""
    actor = Actor.options(scheduling_strategy=GROUPED(group), lifetime="detached", name="inside").remote()
    return ray.get(actor.ping.remote())


@pytest.mark.usefixtures("all_free")
def test_D7b_removal_kills_an_actor_that_another_process_made_in_the_group_of_a_ref(wait_until):
    group = placement_group([{"CPU": 1}])
    assert ray.get(place.remote(group.ready()), timeout=30) == "pong"
    actor = ray.get_actor("inside")
    remove_placement_group(group)

    def is_dead():
        try:
            ray.get(actor.ping.remote(), timeout=30)
        except RayActorError:
            return True
        return False

    wait_until(is_dead, what="the actor dead")


@pytest.mark.usefixtures("all_free")
def test_D7b_removal_kills_its_actors():
    group = placement_group([{"CPU": 1}])
    restarting = Actor.options(max_restarts=-1, scheduling_strategy=GROUPED(group)).remote()
    assert ray.get(restarting.ping.remote(), timeout=30) == "pong"
    waiting = Actor.options(scheduling_strategy=GROUPED(group)).remote()
    call = waiting.ping.remote()
    remove_placement_group(group)
    with pytest.raises(RayActorError, match="actor died because its placement group was removed"):
        ray.get(restarting.ping.remote(), timeout=30)
    with pytest.raises(ActorUnschedulableError, match="placement group was removed"):
        ray.get(call, timeout=30)
    late = Actor.options(scheduling_strategy=GROUPED(group)).remote()
    with pytest.raises(ActorUnschedulableError, match="placement group was removed"):
        ray.get(late.ping.remote(), timeout=30)


@pytest.mark.usefixtures("all_free")
def test_D7c_removal_ends_what_runs_and_what_waits(signs):
    group = placement_group([{"CPU": 1}])

    @ray.remote
    def runs(name):
        signs.set(name)
        time.sleep(600)

    inside = runs.options(scheduling_strategy=GROUPED(group))
    once = inside.options(max_retries=0).remote("once")
    signs.wait("once")
    waiting = inside.remote("never")
    remove_placement_group(group)
    with pytest.raises(WorkerCrashedError, match="placement group"):
        ray.get(once, timeout=30)
    for ref in (waiting, inside.remote("never")):
        with pytest.raises(TaskPlacementGroupRemoved):
            ray.get(ref, timeout=30)
    assert signs.count("never") == 0


@pytest.mark.usefixtures("all_free")
def test_D7c_a_task_with_retries_is_not_run_elsewhere(signs):
    group = placement_group([{"CPU": 1}])

    @ray.remote(max_retries=-1)
    def runs():
        signs.set("runs")
        time.sleep(600)

    ref = runs.options(scheduling_strategy=GROUPED(group)).remote()
    signs.wait("runs")
    remove_placement_group(group)
    with pytest.raises(TaskPlacementGroupRemoved):
        ray.get(ref, timeout=30)
    assert signs.count("runs") == 1


@pytest.mark.usefixtures("all_free")
def test_D7d_removal_frees_what_was_set_aside_also_under_use(signs, wait_until):
    group = placement_group([{"CPU": 2}])

    @ray.remote(num_cpus=2, max_retries=0)
    def runs():
        signs.set("runs")
        time.sleep(600)

    ref = runs.options(scheduling_strategy=GROUPED(group)).remote()
    signs.wait("runs")
    assert cpus_free() == 0
    remove_placement_group(group)
    wait_until(lambda: cpus_free() == 2, what="the group's CPUs free")
    again = placement_group([{"CPU": 2}])
    assert again.wait(20)
    remove_placement_group(again)
    del ref


@pytest.mark.usefixtures("all_free")
def test_D7h_D7i_names_are_unique_and_free_after_removal():
    group = placement_group([{"CPU": 1}], name="one")
    with pytest.raises(RaySystemError, match="already exists"):
        placement_group([{"CPU": 1}], name="one")
    assert get_placement_group("one") == group
    remove_placement_group(group)
    with pytest.raises(ValueError, match="one"):
        get_placement_group("one")
    with pytest.raises(ValueError, match="non-empty"):
        get_placement_group("")
    again = placement_group([{"CPU": 1}], name="one")
    assert get_placement_group("one") == again != group
    remove_placement_group(again)


MAKE = """
ray.init(address="auto", namespace="ns")
group = ray.util.placement_group([{"CPU": 1}], name=sys.argv[1], lifetime=sys.argv[2] or None)
assert group.wait(20)
print("made", flush=True)
"""

LOOK = """
ray.init(address="auto", namespace="ns")
for _ in range(2000):
    if ray.available_resources().get("CPU", 0) == float(sys.argv[1]):
        break
    time.sleep(0.01)
states = {row["name"]: row["state"] for row in ray.util.placement_group_table().values()}
print(ray.available_resources().get("CPU", 0), sorted(states.items()), flush=True)
"""


def test_D7e_D7g_a_group_ends_with_its_job_unless_it_is_detached(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "3").returncode == 0
    drivers.run(MAKE, "owned", "")
    drivers.run(MAKE, "kept", "detached")
    killed = drivers.start(MAKE + "time.sleep(600)", "killed", "")
    killed.hear_until("made")
    killed.kill()
    out, _ = drivers.run(LOOK, "2.0")
    assert out.strip() == "2.0 [('kept', 'CREATED'), ('killed', 'REMOVED'), ('owned', 'REMOVED')]"
    use = """
    ray.init(address="auto", namespace="ns")
    group = ray.util.get_placement_group("kept")
    f = ray.remote(lambda: ray.util.get_current_placement_group().id.hex()).options(placement_group=group)
    assert ray.get(f.remote(), timeout=30) == group.id.hex()
    ray.util.remove_placement_group(group)
    """
    drivers.run(use.replace("\n    ", "\n"))
    out, _ = drivers.run(LOOK, "3.0")
    assert out.startswith("3.0")


def test_D7f_a_group_made_by_a_detached_actor_ends_with_the_actor(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "3").returncode == 0
    make = """
    ray.init(address="auto", namespace="ns")

    @ray.remote
    class Maker:
        def make(self):
            self.group = ray.util.placement_group([{"CPU": 1}], name="of the actor")
            return self.group.wait(20)

    maker = Maker.options(name="maker", lifetime="detached").remote()
    assert ray.get(maker.make.remote(), timeout=30)
    """
    drivers.run(make.replace("\n    ", "\n"))
    out, _ = drivers.run(LOOK, "2.0")
    assert out.strip() == "2.0 [('of the actor', 'CREATED')]", "the job's end is not the group's"
    drivers.run('ray.init(address="auto", namespace="ns")\nray.kill(ray.get_actor("maker"))')
    out, _ = drivers.run(LOOK, "3.0")
    assert out.strip() == "3.0 [('of the actor', 'REMOVED')]"
