"""Which idle workers go, and which must not: rule R4."""

import os
import time

import numpy as np
import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import ActorDiedError

pytestmark = pytest.mark.one_node("counts the workers of its own node")

VALUES = {"small": 10, "large": 300_000}


@pytest.fixture
def quick(no_session):
    """A session that ends idle workers after a moment; by itself it keeps two."""
    ray.init(num_cpus=2, _system_config={"idle_worker_killing_time_threshold_ms": 200}, _prestart=2)


@ray.remote(num_cpus=0)
def meet(signs, count):
    """Return once so many are here at one time, each in a process of its own."""
    signs.set("here")
    while signs.count("here") < count:
        time.sleep(0.01)
    return os.getpid()


@ray.remote(num_cpus=0)
def meet_and_own(signs, count, size):
    """As `meet`, and return a ref of its own."""
    signs.set("owners")
    while signs.count("owners") < count:
        time.sleep(0.01)
    return os.getpid(), [ray.put(np.full(size, 7, dtype=np.uint8))]


@ray.remote(num_cpus=0)
class Actor:
    def pid(self):
        return os.getpid()


def workers():
    """Pids of this session's workers."""
    return {pid for pid, role, _ in _native.status()["processes"] if role != "driver"}


def test_R4a_idle_workers_go_down_to_the_number_of_cpus(quick, signs, wait_until, leaks):
    pids = set(ray.get([meet.remote(signs, 8) for _ in range(8)], timeout=50))
    assert len(pids) == 8
    wait_until(lambda: len(workers()) == 2, what="two workers that stay")
    wait_until(lambda: sum(leaks.is_alive(pid) for pid in pids) <= 2, what="the end of the others")
    # Those that stay are not ended either, and serve on.
    assert ray.get(meet.remote(signs, 1), timeout=30) in workers()


def test_R4a_so_do_workers_that_only_borrow_something(quick, signs, wait_until):
    held = ray.put(7)

    @ray.remote(num_cpus=0)
    def captures():
        signs.set("here")
        while signs.count("here") < 8:
            time.sleep(0.01)
        return ray.get(held)

    assert ray.get([captures.remote() for _ in range(8)], timeout=50) == [7] * 8
    wait_until(lambda: len(workers()) == 2, what="two workers that stay")
    assert ray.get(held) == 7


# Tasks of a worker end with it. A task without return values was no reason to stay: it was killed with whoever had started it.
def test_R4b_a_worker_whose_tasks_still_run_stays(quick, signs, wait_until):
    @ray.remote(num_cpus=0, num_returns=0)
    def late(signs, name):
        signs.set(f"{name} began")
        signs.wait("go")
        signs.set(f"{name} ended")

    @ray.remote(num_cpus=0)
    def start(signs, name):
        late.remote(signs, name)
        signs.set("here")
        while signs.count("here") < 6:
            time.sleep(0.01)
        return os.getpid()

    names = [f"late-{number}" for number in range(6)]
    starters = set(ray.get([start.remote(signs, name) for name in names], timeout=50))
    wait_until(lambda: all(signs.count(f"{name} began") for name in names), what="all tasks")
    # Long beyond the time after which an idle worker goes.
    time.sleep(1)
    assert len(starters & workers()) == 6
    signs.set("go")
    wait_until(lambda: all(signs.count(f"{name} ended") for name in names), what="the end of all tasks")
    assert all(signs.count(f"{name} began") == 1 for name in names), "none was started anew"
    wait_until(lambda: len(workers()) == 2, what="the end of workers that are idle now")


@pytest.mark.parametrize("size", VALUES.values(), ids=VALUES)
def test_R4b_a_worker_that_owns_a_value_stays_as_long_as_somebody_holds_it(quick, signs, wait_until, leaks, size):
    made = ray.get([meet_and_own.remote(signs, 6, size) for _ in range(6)], timeout=50)
    owners = {pid for pid, _ in made}
    assert len(owners) == 6
    # Others come and go meanwhile.
    ray.get([meet.remote(signs, 8) for _ in range(8)], timeout=50)
    wait_until(lambda: len(workers() - owners) <= 2, what="the end of workers that own nothing")
    assert all(leaks.is_alive(pid) for pid in owners)
    assert [int(ray.get(refs[0], timeout=30)[0]) for _, refs in made] == [7] * 6
    del made
    wait_until(lambda: len(workers()) == 2, what="the end of workers whose values nobody holds")


@pytest.mark.parametrize("size", VALUES.values(), ids=VALUES)
def test_R4c_a_worker_that_owns_values_does_not_become_an_actor(no_session, signs, wait_until, size):
    ray.init(num_cpus=2, resources={"mark": 4})
    own = meet_and_own.options(resources={"mark": 1})
    made = ray.get([own.remote(signs, 4, size) for _ in range(4)], timeout=50)
    owners = {pid for pid, _ in made}
    # The driver keeps its leases for a moment; then the workers may be given to anyone.
    wait_until(lambda: ray.available_resources().get("mark") == 4, what="leases that go back")
    actors = [Actor.remote() for _ in range(8)]
    pids = set(ray.get([actor.pid.remote() for actor in actors], timeout=50))
    assert not pids & owners
    for actor in actors:
        ray.kill(actor)
    for actor in actors:
        with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
            ray.get(actor.pid.remote(), timeout=30)
    assert [int(ray.get(refs[0], timeout=30)[0]) for _, refs in made] == [7] * 4
