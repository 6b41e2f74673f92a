"""In which order an actor runs the calls that it gets."""

import threading
import time

import pytest

import eagleray as ray

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote
class Log:
    def __init__(self):
        self.seen = []

    def add(self, item):
        self.seen.append(item)
        return item

    def all(self):
        return self.seen


@ray.remote(num_cpus=0)
class Gate:
    """Holds whoever waits at it until it is opened."""

    def __init__(self):
        import asyncio

        self.event = asyncio.Event()

    async def wait(self, value):
        await self.event.wait()
        return value

    async def open(self):
        self.event.set()


def test_A1a_calls_run_in_the_order_they_were_made():
    log = Log.remote()
    calls = [log.add.remote(number) for number in range(2_000)]
    assert ray.get(calls) == list(range(2_000))
    assert ray.get(log.all.remote()) == list(range(2_000))


def test_A1a_calls_made_before_the_actor_stands_run_in_order_too():
    @ray.remote
    class Slow:
        def __init__(self):
            time.sleep(0.3)
            self.seen = []

        def add(self, item):
            self.seen.append(item)
            return list(self.seen)

    slow = Slow.remote()
    calls = [slow.add.remote(number) for number in range(50)]
    assert ray.get(calls[-1]) == list(range(50))


def test_A1a_calls_of_several_threads_of_a_driver_keep_the_order_of_each_thread():
    log = Log.remote()

    def call(thread):
        for number in range(300):
            log.add.remote((thread, number))

    threads = [threading.Thread(target=call, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = ray.get(log.all.remote())
    assert len(seen) == 1_200
    for thread in range(4):
        assert [number for by, number in seen if by == thread] == list(range(300))


def test_A1b_a_call_waits_for_the_one_before_it_whose_argument_is_not_ready():
    gate, log = Gate.remote(), Log.remote()
    first = log.add.remote(gate.wait.remote("first"))
    second = log.add.remote("second")
    ready, _ = ray.wait([second], timeout=0.5)
    assert ready == [], "the second call overtook the first"
    ray.get(gate.open.remote())
    assert ray.get([first, second]) == ["first", "second"]
    assert ray.get(log.all.remote()) == ["first", "second"]


def test_A1b_a_failed_argument_ends_its_own_call_only():
    @ray.remote
    def fails():
        raise ValueError("no value")

    log = Log.remote()
    bad = log.add.remote(fails.remote())
    good = log.add.remote("good")
    assert ray.get(good) == "good"
    with pytest.raises(ray.exceptions.RayTaskError, match="no value"):
        ray.get(bad)
    assert ray.get(log.all.remote()) == ["good"]


def test_A1c_a_caller_that_waits_for_its_argument_holds_up_no_other():
    @ray.remote(num_cpus=0)
    def other(log):
        return ray.get(log.add.remote("other"))

    gate, log = Gate.remote(), Log.remote()
    mine = log.add.remote(gate.wait.remote("mine"))
    assert ray.get(other.remote(log), timeout=30) == "other"
    assert ray.wait([mine], timeout=0)[0] == []
    ray.get(gate.open.remote())
    assert ray.get(mine) == "mine"
    assert ray.get(log.all.remote()) == ["other", "mine"]
