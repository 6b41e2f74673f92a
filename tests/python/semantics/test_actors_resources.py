"""What an actor takes of the node's CPUs."""

import time

import pytest

import eagleray as ray

pytestmark = pytest.mark.two_nodes


@pytest.fixture
def Default():
    @ray.remote
    class Default:
        def ping(self):
            return "pong"

        def assigned(self):
            return ray.get_runtime_context().get_assigned_resources()

    return Default


def free_cpus():
    return ray.available_resources().get("CPU", 0)


@pytest.mark.usefixtures("ray_session")
def test_A2a_a_default_actor_holds_no_cpu_while_it_lives(Default, wait_until):
    actors = [Default.remote() for _ in range(6)]
    assert ray.get([actor.ping.remote() for actor in actors]) == ["pong"] * 6
    wait_until(lambda: free_cpus() == 2, what="both CPUs free beside six actors")


@pytest.mark.usefixtures("ray_session")
def test_A2a_a_default_actor_needs_a_free_cpu_to_be_placed(Default, wait_until):
    @ray.remote
    class Holder:
        def ping(self):
            return "pong"

    holders = [Holder.options(num_cpus=1).remote() for _ in range(2)]
    ray.get([holder.ping.remote() for holder in holders])
    wait_until(lambda: free_cpus() == 0, what="no CPU free")
    actor = Default.remote()
    call = actor.ping.remote()
    assert ray.wait([call], timeout=0.5)[0] == [], "it was placed without a CPU"
    ray.kill(holders[0])
    assert ray.get(call, timeout=30) == "pong"


@pytest.mark.usefixtures("ray_session")
def test_A2b_assigned_resources_of_a_default_actor_show_no_cpu(Default):
    assert "CPU" not in ray.get(Default.remote().assigned.remote())


@pytest.mark.usefixtures("ray_session")
def test_A2c_an_explicit_num_cpus_is_held_until_the_actor_ends(Default, wait_until):
    actor = Default.options(num_cpus=1).remote()
    assert ray.get(actor.assigned.remote()) == {"CPU": 1.0}
    assert free_cpus() == 1
    time.sleep(0.2)
    assert free_cpus() == 1, "it gave its CPU back while it lives"
    half = Default.options(num_cpus=0.5).remote()
    assert ray.get(half.assigned.remote()) == {"CPU": 0.5}
    assert free_cpus() == 0.5
    del actor, half
    wait_until(lambda: free_cpus() == 2, what="the CPUs given back")


@pytest.mark.usefixtures("no_session")
def test_A2d_where_there_is_no_cpu_a_default_actor_stays_pending(Default):
    ray.init(num_cpus=0)
    actor = Default.remote()
    call = actor.ping.remote()
    assert ray.wait([call], timeout=0.5)[0] == []
    free = Default.options(num_cpus=0).remote()
    assert ray.get(free.ping.remote(), timeout=30) == "pong", "one that needs none runs"
    assert ray.wait([call], timeout=0)[0] == []


@pytest.mark.usefixtures("no_session")
def test_A2c_a_constructor_that_waits_for_its_argument_lets_the_task_that_makes_it_run(Default):
    ray.init(num_cpus=1)

    @ray.remote
    def make():
        time.sleep(0.3)
        return "made"

    @ray.remote(num_cpus=1)
    class Takes:
        def __init__(self, value):
            self.value = value

        def read(self):
            return self.value

    assert ray.get(Takes.remote(make.remote()).read.remote(), timeout=30) == "made"
