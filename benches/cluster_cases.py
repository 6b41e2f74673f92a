"""The cases of several nodes, each written once in Ray's words. A function takes a `Nodes` and returns the job to time.

As in `cases/`, remote functions and classes are defined inside the case, so that they travel by value.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cases.catalog import BATCH, MIB, Case, Ray, case
from measure import Job

# numpy is imported where a case runs: whoever only lists the cases or prints a table needs no numpy.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGE_MIB = 100
HUGE_MIB = 256
LOOKS = 100
READ_SECONDS_MAX = 50
# What the driver's node has not, and the other has plenty of.
AWAY = {"away": 1}

NODE_CASES: dict[str, Case] = {}
node_case = functools.partial(case, into=NODE_CASES)


@dataclass(frozen=True)
class Nodes:
    """Two nodes that are up: the system's module, its `cluster_utils.Cluster`, and a driver on the first node, which leads."""

    ray: Ray
    cluster: Any


@node_case("sync actor call", goal=8_000, goal_times_ray=6)
def sync_actor(nodes: Nodes) -> Job:
    """One call, its result, the next."""
    ray, actor = nodes.ray, _counter(nodes)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(actor.one.remote())

    return job


@node_case("async actor calls, batch of 1,000", amount=BATCH, goal=120_000, goal_times_ray=25)
def async_actor_calls(nodes: Nodes) -> Job:
    """A batch of calls on one actor, then all results."""
    ray, actor = nodes.ray, _counter(nodes)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get([actor.one.remote() for _ in range(BATCH)])

    return job


@node_case("sync task")
def sync_task(nodes: Nodes) -> Job:
    """Submit one task, get its result, then the next."""
    ray = nodes.ray

    @ray.remote(resources=AWAY)
    def one() -> int:
        return 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(one.remote())

    return job


@node_case("async tasks, batch of 1,000", amount=BATCH)
def async_tasks(nodes: Nodes) -> Job:
    """Submit a batch, then get all of it."""
    ray = nodes.ray

    @ray.remote(resources=AWAY)
    def one() -> int:
        return 1

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get([one.remote() for _ in range(BATCH)])

    return job


@node_case("1 MiB argument by value")
def argument_by_value(nodes: Nodes) -> Job:
    """A sync call whose array is sent with it."""
    import numpy as np

    class Sink:
        def size(self, array: NDArray[np.uint8]) -> int:
            return array.nbytes

    ray, actor = nodes.ray, nodes.ray.remote(resources=AWAY)(Sink).remote()
    array = np.ones(MIB, dtype=np.uint8)

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert ray.get(actor.size.remote(array)) == MIB

    return job


@node_case("1 MiB result by value")
def result_by_value(nodes: Nodes) -> Job:
    """A sync call that returns an array, which is read here."""

    class Source:
        def __init__(self) -> None:
            import numpy as np

            self.array = np.ones(MIB, dtype=np.uint8)

        def give(self) -> NDArray[np.uint8]:
            return self.array

    ray, actor = nodes.ray, nodes.ray.remote(resources=AWAY)(Source).remote()

    def job(repeats: int) -> None:
        for _ in range(repeats):
            assert ray.get(actor.give.remote()).nbytes == MIB

    return job


@node_case("1 MiB argument by ref, used before")
def argument_by_ref(nodes: Nodes) -> Job:
    """A sync call with an array that its node has had before."""
    import numpy as np

    class Sink:
        def size(self, array: NDArray[np.uint8]) -> int:
            return array.nbytes

    ray, actor = nodes.ray, nodes.ray.remote(resources=AWAY)(Sink).remote()
    array = ray.put(np.ones(MIB, dtype=np.uint8))
    assert ray.get(actor.size.remote(array)) == MIB

    def job(repeats: int) -> None:
        for _ in range(repeats):
            ray.get(actor.size.remote(array))

    return job


@node_case("get of 100 MiB", unit="GiB/s", amount=LARGE_MIB / 1024, repeats_min=3)
def large_get(nodes: Nodes) -> Job:
    """An array that lies on the other node is got for the first time. Each is put anew, and only `get` is timed."""
    return _get_of(nodes, LARGE_MIB)


@node_case("get of 256 MiB", unit="GiB/s", amount=HUGE_MIB / 1024, repeats_min=3, goal=1.5, goal_times_ray=2)
def huge_get(nodes: Nodes) -> Job:
    """The same of a larger one."""
    return _get_of(nodes, HUGE_MIB)


def _get_of(nodes: Nodes, mib: int) -> Job:
    ray = nodes.ray

    class Putter:
        def __init__(self) -> None:
            import numpy as np

            self.array = np.ones(mib * MIB, dtype=np.uint8)

        def put(self) -> list[object]:
            return [ray.put(self.array)]

    actor = ray.remote(resources=AWAY)(Putter).remote()

    def job(repeats: int) -> float:
        spent = 0.0
        for _ in range(repeats):
            (ref,) = ray.get(actor.put.remote())
            began = time.perf_counter()
            array = ray.get(ref)
            spent += time.perf_counter() - began
            assert array.nbytes == mib * MIB
            assert array[-1] == 1
            del array, ref
        return spent

    return job


@node_case("a named actor looked up, 100 times in a call", unit="looks/s", amount=LOOKS)
def named_actor(nodes: Nodes) -> Job:
    """Whoever looks is not on the head's node. Processes of Ray remember the names that they have looked up."""
    ray = nodes.ray

    class Named:
        def one(self) -> int:
            return 1

    class Looker:
        def look(self, times: int) -> None:
            for _ in range(times):
                ray.get_actor("named")

    named = ray.remote(resources=AWAY, name="named")(Named).remote()
    assert ray.get(named.one.remote()) == 1
    looker = ray.remote(resources=AWAY)(Looker).remote()

    def job(repeats: int) -> None:
        assert named is not None, "the name goes with the last handle"
        for _ in range(repeats):
            ray.get(looker.look.remote(LOOKS))

    return job


@node_case("an owner away is killed: 1,000 refs are read", unit="s", goal=0.3)
def owner_killed(nodes: Nodes) -> Job:
    """From the kill until the driver has all values. The actor's start, its puts and the gift of the refs do not count."""
    ray = nodes.ray

    @ray.remote(num_cpus=0, resources=AWAY)
    class Owner:
        def make(self) -> tuple[int, list[object]]:
            return os.getpid(), [ray.put(number) for number in range(BATCH)]

    def job(repeats: int) -> float:
        spent = 0.0
        for _ in range(repeats):
            owner = Owner.remote()
            pid, refs = ray.get(owner.make.remote())
            began = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            assert ray.get(refs, timeout=READ_SECONDS_MAX) == list(range(BATCH))
            spent += time.perf_counter() - began
        return spent

    return job


@node_case("a node starts and joins", unit="s", goal=0.5)
def node_joins(nodes: Nodes) -> Job:
    """From the start of its process until the head counts it as a member. Its end does not count."""

    def job(repeats: int) -> float:
        spent = 0.0
        for _ in range(repeats):
            began = time.perf_counter()
            node = nodes.cluster.add_node(num_cpus=1)
            spent += time.perf_counter() - began
            nodes.cluster.remove_node(node)
        return spent

    return job


def _counter(nodes: Nodes) -> Ray:
    class Counter:
        def one(self) -> int:
            return 1

    return nodes.ray.remote(resources=AWAY)(Counter).remote()
