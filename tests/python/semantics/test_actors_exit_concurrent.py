"""An actor that ends while calls run side by side in it."""

import asyncio
import os
import signal
import threading
import time

import pytest

import eagleray as ray
from eagleray.actor import exit_actor
from eagleray.exceptions import ActorDiedError, RayActorError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@pytest.fixture
def ends(leaks, wait_until):
    def wait(pid):
        wait_until(lambda: not leaks.is_alive(pid), what=f"the end of {pid}")

    return wait


@ray.remote(num_cpus=0, max_concurrency=3)
class Threaded:
    def __init__(self):
        self.started = threading.Semaphore(0)
        self.go_on = threading.Event()

    def pid(self):
        return os.getpid()

    def work(self, value):
        self.started.release()
        self.go_on.wait()
        time.sleep(0.2)
        if value is None:
            raise ValueError("no value")
        return value

    def leave(self):
        for _ in range(2):
            self.started.acquire()
        self.go_on.set()
        exit_actor()


@ray.remote(num_cpus=0, max_concurrency=3)
class Async:
    def __init__(self):
        self.started = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def pid(self):
        return os.getpid()

    async def work(self, value):
        self.started.release()
        await self.go_on.wait()
        await asyncio.sleep(0.2)
        if value is None:
            raise ValueError("no value")
        return value

    async def leave(self):
        for _ in range(2):
            await self.started.acquire()
        self.go_on.set()
        exit_actor()


KINDS = [pytest.param(Threaded, id="threaded"), pytest.param(Async, id="async")]


@pytest.mark.parametrize("made", KINDS)
def test_A9a_A9b_calls_in_flight_finish_and_the_rest_fail(made, ends):
    actor = made.remote()
    pid = ray.get(actor.pid.remote())
    good, bad = actor.work.remote("value"), actor.work.remote(None)
    leaving = actor.leave.remote()
    queued = [actor.work.remote(number) for number in range(5)]
    assert ray.get(good) == "value"
    with pytest.raises(ValueError, match="no value"):
        ray.get(bad)
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(leaving)
    for call in queued:
        with pytest.raises(ActorDiedError, match="exited by itself"):
            ray.get(call)
    ends(pid)


@pytest.mark.parametrize("made", KINDS)
def test_A9a_large_values_of_calls_in_flight_are_delivered_too(made):
    import numpy as np

    actor = made.remote()
    ray.get(actor.pid.remote())
    large = np.arange(1_000_000)
    good = [actor.work.remote(large), actor.work.remote(large)]
    actor.leave.remote()
    for value in ray.get(good):
        assert (value == large).all()


def test_A9a_a_thread_that_exits_with_a_code_lets_the_others_finish(ends):
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Exits:
        def __init__(self):
            self.started = threading.Event()

        def pid(self):
            return os.getpid()

        def work(self):
            self.started.set()
            time.sleep(0.3)
            return "worked"

        def exit(self):
            self.started.wait()
            raise SystemExit(3)

    actor = Exits.remote()
    pid = ray.get(actor.pid.remote())
    work = actor.work.remote()
    with pytest.raises(RayActorError, match="exit code 3"):
        ray.get(actor.exit.remote())
    assert ray.get(work) == "worked"
    ends(pid)


@ray.remote(num_cpus=0)
class Plain:
    def pid(self):
        return os.getpid()

    def work(self, file):
        file.touch()
        time.sleep(0.5)
        return "worked"


@ray.remote(num_cpus=0)
class PlainAsync:
    async def pid(self):
        return os.getpid()

    async def work(self, file):
        file.touch()
        await asyncio.sleep(0.5)
        return "worked"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(Plain, id="sync"),
        pytest.param(PlainAsync, id="async"),
        pytest.param(Plain.options(max_concurrency=3), id="threaded"),
    ],
)
def test_A9c_sigterm_lets_calls_in_flight_finish(made, tmp_path, ends, wait_until):
    actor = made.remote()
    pid = ray.get(actor.pid.remote())
    call = actor.work.remote(tmp_path / "started")
    wait_until((tmp_path / "started").exists, what="the call's start")
    os.kill(pid, signal.SIGTERM)
    assert ray.get(call) == "worked"
    ends(pid)
    with pytest.raises(ActorDiedError, match="exit code 15"):
        ray.get(actor.pid.remote())


def test_A9c_sigterm_ends_an_idle_actor_and_a_second_one_a_busy_actor(tmp_path, ends, wait_until):
    idle, busy = Plain.remote(), Plain.remote()
    pids = ray.get([idle.pid.remote(), busy.pid.remote()])
    os.kill(pids[0], signal.SIGTERM)
    ends(pids[0])

    @ray.remote(num_cpus=0)
    class Stuck:
        def work(self, file):
            file.write_text(str(os.getpid()))
            while True:
                time.sleep(0.01)

    stuck = Stuck.remote()
    call = stuck.work.remote(tmp_path / "started")
    wait_until((tmp_path / "started").exists, what="the call's start")
    pid = int(wait_until((tmp_path / "started").read_text, what="the pid"))
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.2)
    os.kill(pid, signal.SIGTERM)
    ends(pid)
    with pytest.raises(ActorDiedError, match="exit code 15"):
        ray.get(call)
