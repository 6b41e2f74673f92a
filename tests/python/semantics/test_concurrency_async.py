"""Actors with coroutines: one event loop, many calls in flight."""

import asyncio
import os
import signal
import sys
import threading
import time
import weakref

import pytest

import eagleray as ray
from eagleray.exceptions import RayTaskError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Async:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()

    async def where(self):
        await asyncio.sleep(0)
        return threading.get_ident() == self.thread, asyncio.get_running_loop() is self.loop

    def where_plainly(self):
        return threading.get_ident() == self.thread, asyncio.get_running_loop() is self.loop

    async def threads(self):
        return threading.active_count()


@ray.remote(num_cpus=0)
class Meeting:
    """Nobody leaves before all have come."""

    def __init__(self, size):
        self.size = size
        self.came = 0
        self.all_here = asyncio.Event()

    async def come(self):
        self.came += 1
        if self.came == self.size:
            self.all_here.set()
        await self.all_here.wait()
        return self.came

    def threads(self):
        return len(os.listdir("/proc/self/task"))


def test_C1a_one_async_method_makes_an_async_actor_with_one_loop():
    actor = Async.remote()
    assert set(ray.get([actor.where.remote() for _ in range(50)])) == {(True, True)}


def test_C1a_calls_wait_side_by_side():
    meeting = Meeting.remote(10)
    assert ray.get([meeting.come.remote() for _ in range(10)], timeout=30) == [10] * 10


def test_C1a_an_inherited_coroutine_makes_an_async_actor_too():
    class Base:
        async def hop(self):
            await asyncio.sleep(0)
            return asyncio.get_running_loop().is_running()

    @ray.remote(num_cpus=0)
    class Derived(Base):
        def plain(self):
            return asyncio.get_running_loop().is_running()

    actor = Derived.remote()
    assert ray.get([actor.hop.remote(), actor.plain.remote()]) == [True, True]


def test_C1a_a_constructor_may_be_a_coroutine_and_start_tasks():
    @ray.remote(num_cpus=0)
    class Starts:
        async def __init__(self, ref):
            self.ticks = 0
            self.value = await ref[0]
            self.task = asyncio.create_task(self.tick())

        async def tick(self):
            while True:
                self.ticks += 1
                await asyncio.sleep(0.01)

        async def read(self):
            while self.ticks < 3:
                await asyncio.sleep(0.01)
            return self.value

    @ray.remote(num_cpus=0)
    def late():
        time.sleep(0.2)
        return "late"

    actor = Starts.remote([late.remote()])
    assert ray.get([actor.read.remote() for _ in range(3)], timeout=30) == ["late"] * 3


def test_C1a_an_exception_in_a_coroutine_is_its_calls_own():
    @ray.remote(num_cpus=0)
    class Raises:
        async def fail(self, number):
            await asyncio.sleep(0.01)
            if number % 2:
                raise KeyError(number)
            return number

    actor = Raises.remote()
    calls = [actor.fail.remote(number) for number in range(10)]
    for number, call in enumerate(calls):
        if number % 2:
            with pytest.raises(KeyError) as raised:
                ray.get(call)
            assert isinstance(raised.value, RayTaskError)
            assert "in fail" in str(raised.value)
        else:
            assert ray.get(call) == number


def test_C1a_a_coroutine_that_cancels_itself_fails_its_own_call_only():
    @ray.remote(num_cpus=0)
    class Cancels:
        async def cancel(self):
            asyncio.current_task().cancel()
            await asyncio.sleep(1)

        async def answer(self):
            return "answer"

    actor = Cancels.remote()
    with pytest.raises(asyncio.CancelledError, match="Cancels.cancel"):
        ray.get(actor.cancel.remote(), timeout=30)
    assert ray.get(actor.answer.remote(), timeout=30) == "answer"


def test_C1b_plain_methods_run_on_the_loops_thread():
    actor = Async.remote()
    assert set(ray.get([actor.where_plainly.remote() for _ in range(20)])) == {(True, True)}


def test_C1b_a_plain_method_is_not_interleaved_with_coroutines():
    @ray.remote(num_cpus=0)
    class Counts:
        def __init__(self):
            self.inside = 0
            self.most = 0

        def step(self):
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.001)
            self.inside -= 1

        async def step_and_hop(self):
            self.step()
            await asyncio.sleep(0)

        async def read(self):
            return self.most

    actor = Counts.remote()
    calls = [method.remote() for _ in range(50) for method in (actor.step, actor.step_and_hop)]
    ray.get(calls)
    assert ray.get(actor.read.remote()) == 1


def test_C1c_a_thousand_calls_may_be_in_flight_and_no_more():
    meeting = Meeting.remote(1_000)
    assert ray.get([meeting.come.remote() for _ in range(1_000)], timeout=40) == [1_000] * 1_000

    crowd = Meeting.remote(1_001)
    calls = [crowd.come.remote() for _ in range(1_001)]
    assert ray.wait(calls, timeout=1)[0] == [], "more than a thousand were in flight"
    ray.kill(crowd)


def test_C1c_calls_of_several_processes_are_in_flight_together():
    @ray.remote(num_cpus=0)
    def come(held, count):
        return ray.get([held[0].come.remote() for _ in range(count)])

    meeting = Meeting.remote(600)
    parties = [come.remote([meeting], 200) for _ in range(3)]
    assert ray.get(parties, timeout=40) == [[600] * 200] * 3


def test_C1d_a_large_max_concurrency_makes_no_threads():
    small = Meeting.options(max_concurrency=1).remote(1)
    large = Meeting.options(max_concurrency=100_000).remote(500)
    few = ray.get(small.threads.remote())
    ray.get([large.come.remote() for _ in range(500)], timeout=40)
    assert ray.get(large.threads.remote()) <= few + 1


def test_C1e_max_concurrency_of_one_runs_each_coroutine_to_its_end():
    @ray.remote(num_cpus=0, max_concurrency=1)
    class Serial:
        def __init__(self):
            self.log = []

        async def run(self):
            self.log.append("STARTED")
            await asyncio.sleep(0.02)
            self.log.append("ENDED")

        async def read(self):
            return self.log

    actor = Serial.remote()
    ray.get([actor.run.remote() for _ in range(10)])
    assert ray.get(actor.read.remote()) == ["STARTED", "ENDED"] * 10


def test_C1e_calls_that_wait_for_their_turn_cost_no_cpu_time():
    @ray.remote(num_cpus=0, max_concurrency=1)
    class Serial:
        async def nap(self):
            start = time.process_time()
            await asyncio.sleep(1)
            return time.process_time() - start

    actor = Serial.remote()
    first, *_ = [actor.nap.remote() for _ in range(2)]
    assert ray.get(first) < 0.5, "the loop spun while a second call waited"


def test_C1f_more_calls_than_the_recursion_limit_may_be_in_flight():
    size = 4 * sys.getrecursionlimit()
    meeting = Meeting.options(max_concurrency=2 * size).remote(size)
    assert ray.get([meeting.come.remote() for _ in range(size)], timeout=50) == [size] * size


def test_C1a_a_signal_handler_of_the_loop_is_called_while_the_loop_sleeps(wait_until):
    # The signal's number lay in the loop's wake-up pipe, which nobody read while the loop slept at the doorbell.
    @ray.remote(num_cpus=0)
    class Listener:
        def __init__(self):
            self.heard = None

        async def listen(self):
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.hear)
            return os.getpid()

        def hear(self):
            self.heard = time.monotonic()

        async def when(self):
            return self.heard

    listener = Listener.remote()
    pid = ray.get(listener.listen.remote())
    time.sleep(0.5)
    os.kill(pid, signal.SIGUSR1)
    # A call would wake the loop, and with it the handler: none is made until it should long have been called.
    time.sleep(1)
    asked = time.monotonic()
    heard = wait_until(lambda: ray.get(listener.when.remote()), what="the signal handler")
    assert heard < asked


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_C1a_an_argument_is_let_go_before_the_answer_is_made(kind):
    # The call kept its arguments until it was answered, so every reference in them counted as kept by the actor.
    class Answer:
        def __init__(self, argument):
            self.argument = weakref.ref(argument)

        def __reduce__(self):
            return bool, (self.argument() is None,)

    @ray.remote(num_cpus=0)
    class Actor:
        async def coroutine(self, argument):
            await asyncio.sleep(0)
            return Answer(argument)

        def function(self, argument):
            return Answer(argument)

    assert ray.get(getattr(Actor.remote(), kind).remote(threading.local)) is False, "a class lives on"
    assert ray.get(getattr(Actor.remote(), kind).remote({1, 2, 3})) is True
