"""What becomes of calls and values when a node is killed: rule E8."""

import os
import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray.cluster_utils import Cluster
from eagleray.exceptions import ActorDiedError, NodeDiedError, OwnerDiedError

pytestmark = pytest.mark.one_node("it brings clusters of its own")

#: So that a call that waits for ever is a failure, and no hang.
LIMIT = 40
AWAY = {"away": 0.01}


@pytest.fixture
def cluster(no_session):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        made.away = made.add_node(num_cpus=2, resources={"away": 1})
        made.connect()
        yield made


@ray.remote(resources=AWAY, num_cpus=0)
class Actor:
    def node(self):
        return ray.get_runtime_context().get_node_id()

    def sleep(self):
        time.sleep(600)

    def count(self):
        for number in range(10_000):
            yield number
            time.sleep(0.05)

    def own(self):
        return [ray.put("small")]


@ray.remote(resources=AWAY, num_cpus=1, max_retries=0)
def sleep(began):
    Path(began).touch()
    time.sleep(600)


def test_E8e_whatever_waits_for_a_killed_node_ends_with_an_error_that_names_it(cluster, tmp_path, wait_until):
    actor = Actor.remote()
    assert ray.get(actor.node.remote()) == cluster.away.node_id
    (owned,) = ray.get(actor.own.remote())
    items = actor.count.remote()
    assert ray.get(next(items)) == 0
    running, call, queued = sleep.remote(str(tmp_path / "began")), actor.sleep.remote(), actor.node.remote()
    wait_until((tmp_path / "began").exists)
    address = cluster.away.address
    cluster.remove_node(cluster.away, allow_graceful=False)
    with pytest.raises(NodeDiedError, match=rf"The node of this task has died: node 2 at {address}"):
        ray.get(running, timeout=LIMIT)
    for ref in (call, queued):
        with pytest.raises(
            ActorDiedError, match=rf"The actor died because its node has died\. It was node 2 at {address}"
        ):
            ray.get(ref, timeout=LIMIT)
    with pytest.raises(OwnerDiedError):
        ray.get(owned, timeout=LIMIT)

    def read_on():
        for item in items:
            ray.get(item, timeout=LIMIT)

    with pytest.raises(ActorDiedError, match="its node has died"):
        read_on()


def test_E8e_what_may_be_tried_again_is_on_another_node(cluster, tmp_path):
    (tmp_path / "runs").touch()

    @ray.remote(resources=AWAY, max_retries=1)
    def run(runs):
        with open(runs, "a") as file:
            file.write(ray.get_runtime_context().get_node_id() + " ")
        if len(Path(runs).read_text().split()) == 1:
            time.sleep(600)
        return "again"

    @ray.remote(resources=AWAY, num_cpus=0, max_restarts=1, max_task_retries=1)
    class Restarts:
        def node(self):
            return ray.get_runtime_context().get_node_id()

    task, actor = run.remote(str(tmp_path / "runs")), Restarts.remote()
    assert ray.get(actor.node.remote()) == cluster.away.node_id
    while not (tmp_path / "runs").read_text():
        time.sleep(0.01)
    other = cluster.add_node(num_cpus=1, resources={"away": 1})
    cluster.remove_node(cluster.away, allow_graceful=False)
    assert ray.get(task, timeout=LIMIT) == "again"
    assert ray.get(actor.node.remote(), timeout=LIMIT) == other.node_id
    assert (tmp_path / "runs").read_text().split() == [cluster.away.node_id, other.node_id]


def test_a_busy_actor_on_another_node_ends_soon_after_its_program(cluster, leaks, wait_until):
    @ray.remote(resources=AWAY, num_cpus=0)
    class Busy:
        def pid(self):
            return os.getpid()

        def hang(self):
            while True:
                time.sleep(0.1)

    actor = Busy.remote()
    pid = ray.get(actor.pid.remote())
    actor.hang.remote()
    ray.shutdown()
    # Who may take its time to end would be here for thirty seconds.
    wait_until(lambda: not leaks.is_alive(pid), seconds=15, what=f"the end of {pid}")


def test_as_many_tasks_run_at_a_time_as_there_is_room_on_all_nodes(cluster, tmp_path):
    """Calls that were wanted back from a busy worker counted as given up by it: others stayed behind it while there was room."""
    cluster.add_node(num_cpus=2)

    @ray.remote(num_cpus=0.5)
    def meet(number, count):
        (tmp_path / str(number)).touch()
        while len(os.listdir(tmp_path)) < count:
            time.sleep(0.01)
        return number

    assert ray.get([meet.remote(number, 8) for number in range(8)], timeout=LIMIT) == list(range(8))
