"""Generators whose worker, actor or caller dies at any moment. Nothing hangs, nothing is seen twice, nothing is left behind."""

import gc
import os
import random
import signal
import threading
import time

import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import ActorDiedError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("ray_session")


def _count_with_pid(number, pause=0.0):
    for index in range(number):
        yield index, os.getpid()
        if pause:
            time.sleep(pause)


def kept():
    gc.collect()
    return _native.tally()


@pytest.mark.parametrize("ahead", [-1, 2])
def test_a_worker_killed_at_any_moment_does_not_disturb_the_stream(ahead):
    rng = random.Random(1)
    make = ray.remote(max_retries=-1, _generator_backpressure_num_objects=ahead)(_count_with_pid)
    for _ in range(8):
        seen, kill_at = [], {rng.randrange(400) for _ in range(3)}
        for ref in make.remote(400):
            index, pid = ray.get(ref, timeout=50)
            seen.append(index)
            if index in kill_at:
                kill_at.discard(index)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        assert seen == list(range(400))


def test_large_values_of_a_killed_worker_stay_readable(wait_until):
    @ray.remote(max_retries=0)
    def blocks():
        for index in range(4):
            yield bytes([index]) * 500_000
        yield os.getpid()
        time.sleep(60)

    generator = blocks.remote()
    refs = [next(generator) for _ in range(4)]
    os.kill(ray.get(next(generator), timeout=30), signal.SIGKILL)
    (failing,) = generator
    with pytest.raises(WorkerCrashedError, match="signal 9"):
        ray.get(failing)
    assert [ray.get(ref) for ref in refs] == [bytes([index]) * 500_000 for index in range(4)]
    del refs, failing, generator
    wait_until(lambda: kept() == (0, 0), what="everything being freed")


@ray.remote
class Actor:
    """Yields slowly, and works beside that."""

    def count(self, number, pause):
        yield from _count_with_pid(number, pause)

    def pid(self):
        return os.getpid()


@pytest.mark.parametrize("ahead", [-1, 1])
def test_a_killed_actor_ends_all_its_streams(wait_until, ahead):
    actor = Actor.options(max_concurrency=4).remote()
    method = actor.count.options(_generator_backpressure_num_objects=ahead)
    generators = [method.remote(100_000, 0.001) for _ in range(3)]
    firsts = [ray.get(next(generator), timeout=30)[0] for generator in generators]
    assert firsts == [0, 0, 0]
    ray.kill(actor)
    for generator in generators:
        *good, failing = generator
        assert [index for index, _ in ray.get(good)] == list(range(1, len(good) + 1))
        with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
            ray.get(failing)
    late = method.remote(1, 0)
    assert isinstance(late, ray.ObjectRefGenerator)
    (failing,) = late
    with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
        ray.get(failing)
    del generators, generator, good, failing, late, method, actor
    wait_until(lambda: kept() == (0, 0), what="everything being freed")


def test_an_actor_killed_again_and_again_is_read_to_the_end():
    actor = Actor.options(max_restarts=-1, max_task_retries=-1).remote()
    generator, seen = actor.count.remote(300, 0.0005), []
    for ref in generator:
        index, pid = ray.get(ref, timeout=50)
        seen.append(index)
        if index in (30, 150, 270):
            os.kill(pid, signal.SIGKILL)
    assert seen == list(range(300))


def test_what_waits_for_a_value_hears_of_the_death():
    actor = Actor.remote()
    generator = actor.count.remote(2, 60)
    _, pid = ray.get(next(generator), timeout=30)
    threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()
    assert ray.wait([generator], timeout=30)[0] == [generator]
    with pytest.raises(ActorDiedError, match="signal 9"):
        ray.get(next(generator))


def test_streams_that_are_dropped_half_read_leave_nothing(wait_until):
    make = ray.remote(_count_with_pid)
    for read in range(40):
        generator = make.remote(200)
        for _ in range(read):
            next(generator)
    del generator
    wait_until(lambda: kept() == (0, 0), what="everything being freed")


def test_a_generator_of_the_last_session_has_ended():
    generator = ray.remote(_count_with_pid).remote(5)
    assert ray.get(next(generator), timeout=30)[0] == 0
    ray.shutdown()
    assert list(generator) == []
    assert generator.is_finished()
    assert not generator.next_ready()


def test_a_driver_that_is_killed_takes_its_waiting_generators_along(drivers, leaks):
    driver = drivers.start(
        """
        ray.init(num_cpus=2)

        @ray.remote(_generator_backpressure_num_objects=1)
        def endless():
            while True:
                yield os.getpid()

        generators = [endless.remote() for _ in range(2)]
        print("pids", *[ray.get(next(generator)) for generator in generators])
        time.sleep(60)
        """
    )
    pids = [int(pid) for pid in driver.hear_until("pids").split()]
    driver.kill()
    leaks.check([driver.pid, *pids])


def test_a_driver_that_ends_takes_its_waiting_generators_along(drivers, leaks):
    out, _ = drivers.run(
        """
        ray.init(num_cpus=2)

        @ray.remote(_generator_backpressure_num_objects=1)
        def endless():
            while True:
                yield os.getpid()

        generator = endless.remote()
        print(ray.get(next(generator)))
        """
    )
    leaks.check([int(out)])


def test_ctrl_c_while_the_next_value_is_awaited(drivers):
    driver = drivers.start(
        """
        ray.init(num_cpus=2)

        @ray.remote
        def slow():
            yield 1
            time.sleep(60)

        generator = slow.remote()
        next(generator)
        print("waits", flush=True)
        try:
            next(generator)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    driver.hear_until("waits")
    time.sleep(0.1)
    driver.kill(signal.SIGINT)
    driver.hear_until("interrupted")
    assert driver.end()[0] == 0
