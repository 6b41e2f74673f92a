"""Actors with several threads."""

import os
import sys
import threading
import time

import pytest

import eagleray as ray

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Threaded:
    def __init__(self, size=0):
        self.local = threading.local()
        self.main = threading.get_ident()
        self.barrier = threading.Barrier(size) if size else None
        self.inside = 0
        self.most = 0
        self.lock = threading.Lock()

    def meet(self):
        """Nobody leaves before all have come."""
        self.barrier.wait(30)
        return threading.get_ident()

    def where(self):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.005)
        with self.lock:
            self.inside -= 1
        return threading.get_ident()

    def most_at_once(self):
        return self.most

    def count(self):
        self.local.calls = getattr(self.local, "calls", 0) + 1
        time.sleep(0.002)
        return threading.get_ident(), self.local.calls

    def quick(self):
        return threading.get_ident()

    def pid(self):
        return os.getpid()

    def sleeps(self):
        """How often each thread that serves calls has slept."""
        counted = {}
        for thread in threading.enumerate():
            if thread.name.startswith("eagleray-actor-"):
                with open(f"/proc/self/task/{thread.native_id}/status") as status:
                    counted[thread.native_id] = int(status.read().split("\nvoluntary_ctxt_switches:")[1].split()[0])
        return counted

    def main_thread(self):
        return threading.main_thread().ident

    def nap(self, seconds):
        time.sleep(seconds)
        return seconds


@pytest.mark.parametrize("size", [2, 5, 32])
def test_C2a_max_concurrency_calls_run_at_once_on_as_many_threads(size):
    actor = Threaded.options(max_concurrency=size).remote(size)
    for _ in range(3):
        assert len(set(ray.get([actor.meet.remote() for _ in range(size)], timeout=40))) == size


def test_C2a_never_more_than_that():
    actor = Threaded.options(max_concurrency=3).remote()
    threads = set(ray.get([actor.where.remote() for _ in range(100)]))
    assert len(threads) <= 3
    assert ray.get(actor.most_at_once.remote()) <= 3
    assert ray.get(actor.main_thread.remote()) not in threads


def test_C2a_one_is_the_default_and_means_no_other_thread():
    actor = Threaded.remote()
    assert set(ray.get([actor.where.remote() for _ in range(20)])) == {ray.get(actor.main_thread.remote())}


def test_C2a_hundreds_of_threads_work():
    actor = Threaded.options(max_concurrency=300).remote(300)
    assert len(set(ray.get([actor.meet.remote() for _ in range(300)], timeout=50))) == 300


def test_C2b_the_threads_stay_and_thread_locals_with_them():
    actor = Threaded.options(max_concurrency=3).remote()
    counted = {}
    for _ in range(5):
        for thread, calls in ray.get([actor.count.remote() for _ in range(30)]):
            counted[thread] = max(calls, counted.get(thread, 0))
        time.sleep(0.05)
    assert len(counted) <= 3
    assert sum(counted.values()) == 150, "a thread forgot what it had counted"


@pytest.mark.parametrize("size", [5, 32])
def test_C2e_as_many_short_calls_as_threads_get_a_thread_each(size):
    # The first thread was done before the others had started, and took their calls.
    for _ in range(5):
        actor = Threaded.options(max_concurrency=size).remote()
        assert len(set(ray.get([actor.quick.remote() for _ in range(size)]))) == size
        assert len(set(ray.get([actor.quick.remote() for _ in range(10 * size)]))) <= size


def test_C2e_a_call_wakes_one_idle_thread():
    # Each call woke every thread that waited for one.
    size, calls = 16, 300
    actor = Threaded.options(max_concurrency=size).remote()
    ray.get([actor.quick.remote() for _ in range(2 * size)])
    before = ray.get(actor.sleeps.remote())
    assert len(before) == size
    for _ in range(calls):
        ray.get(actor.quick.remote())
    slept = {thread: count - before[thread] for thread, count in ray.get(actor.sleeps.remote()).items()}
    # One runs the call and another one listens meanwhile; on a busy machine they also sleep for each other's interpreter lock.
    assert sum(slept.values()) < calls * size / 2, slept


def test_C2e_also_one_after_the_other():
    actor = Threaded.options(max_concurrency=3).remote()
    assert len({ray.get(actor.quick.remote()) for _ in range(3)}) == 3
    assert len({ray.get(actor.quick.remote()) for _ in range(50)}) <= 3


def test_C2e_and_in_each_group():
    @ray.remote(num_cpus=0, concurrency_groups={"io": 3, "one": 1})
    class Grouped:
        def __init__(self):
            self.local = threading.local()

        def add(self):
            self.local.calls = getattr(self.local, "calls", 0) + 1
            return threading.get_ident(), self.local.calls

    actor = Grouped.remote()
    threads = {}
    for group, size in (("io", 3), ("one", 1)):
        add = actor.add.options(concurrency_group=group)
        first = ray.get([add.remote() for _ in range(size)])
        assert len({thread for thread, _ in first}) == size
        for thread, calls in first + [ray.get(add.remote()) for _ in range(30)]:
            threads[thread] = max(calls, threads.get(thread, 0))
    assert len(threads) == 4
    assert sum(threads.values()) == 3 + 1 + 60, "a thread forgot what it had counted"


def test_C2e_an_actor_with_threads_that_had_no_call_yet_ends(leaks, wait_until):
    actor = Threaded.options(max_concurrency=5).remote()
    pid = ray.get(actor.pid.remote())
    ray.get(actor.quick.remote())
    del actor
    wait_until(lambda: not leaks.is_alive(pid), what="its end")


@pytest.mark.parametrize("end", ["exit_actor", "sys_exit", "dropped", "killed"])
def test_C2b_dozens_of_idle_threads_end_with_their_actor(leaks, wait_until, end):
    # One thread of the program's own stands at the doorbell, so that none of those that serve calls does.
    @ray.remote(num_cpus=0, max_concurrency=48)
    class Ends:
        def __init__(self, never):
            threading.Thread(target=lambda: ray.get(never), daemon=True).start()

        def pid(self):
            return os.getpid()

        def exit_actor(self):
            ray.actor.exit_actor()

        def sys_exit(self):
            sys.exit(0)

    never = Threaded.remote().nap.remote(600)
    actor = Ends.remote([never])
    pid = ray.get([actor.pid.remote() for _ in range(100)])[0]
    if end == "killed":
        ray.kill(actor)
    elif end != "dropped":
        with pytest.raises(ray.exceptions.RayActorError, match="exited by itself"):
            ray.get(getattr(actor, end).remote())
    del actor
    wait_until(lambda: not leaks.is_alive(pid), what="its end")


def test_C2b_a_child_that_is_forked_beside_dozens_of_idle_threads_ends_and_they_go_on():
    @ray.remote(num_cpus=0, max_concurrency=48)
    class Forks:
        def fork(self):
            child = os.fork()
            if child == 0:
                os._exit(7)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        def where(self):
            return threading.get_ident()

    actor = Forks.remote()
    threads = set(ray.get([actor.where.remote() for _ in range(48)]))
    assert ray.get([actor.fork.remote() for _ in range(5)]) == [7] * 5
    assert set(ray.get([actor.where.remote() for _ in range(100)])) <= threads


def test_C2b_they_stay_after_exceptions():
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Fails:
        def fail(self):
            raise ValueError(threading.get_ident())

    actor = Fails.remote()
    threads = set()
    for call in [actor.fail.remote() for _ in range(20)]:
        with pytest.raises(ValueError, match=r"ValueError: \d+") as raised:
            ray.get(call)
        threads.add(raised.value.cause.args[0])
    assert len(threads) <= 2


def test_C2c_calls_may_finish_out_of_order():
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Waits:
        def __init__(self):
            self.event = threading.Event()

        def wait(self):
            return self.event.wait(30)

        def set(self):
            self.event.set()
            return os.getpid()

    actor = Waits.remote()
    first, second = actor.wait.remote(), actor.set.remote()
    assert ray.get(second, timeout=40)
    assert ray.get(first) is True


def test_C2c_a_call_whose_argument_is_not_ready_is_overtaken():
    @ray.remote(num_cpus=0)
    def late():
        time.sleep(600)

    actor = Threaded.options(max_concurrency=2).remote()
    waits = actor.nap.remote(late.remote())
    assert ray.get(actor.nap.remote(0), timeout=40) == 0
    assert ray.wait([waits], timeout=0)[0] == []


def test_C2d_order_cannot_be_asked_of_an_async_or_threaded_actor():
    @ray.remote
    class Async:
        async def method(self):
            pass

    @ray.remote
    class Plain:
        def method(self):
            return "answer"

    with pytest.raises(ValueError, match="allow_out_of_order_execution"):
        Async.options(allow_out_of_order_execution=False).remote()
    with pytest.raises(ValueError, match="allow_out_of_order_execution"):
        Plain.options(allow_out_of_order_execution=False, max_concurrency=2).remote()
    actor = Plain.options(allow_out_of_order_execution=False).remote()
    assert ray.get(actor.method.remote()) == "answer"
