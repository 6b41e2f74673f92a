"""Large arguments by value: the worker hears that a call is coming before it is there. Nothing may hang on that hint."""

import os
import signal
import threading

import numpy as np
import pytest

import eagleray as ray

MIB = 1 << 20


def pattern(size):
    """Bytes of which no part looks like another."""
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


@ray.remote
class Holder:
    def pid(self):
        return os.getpid()

    def echo(self, *values):
        return values

    def total(self, array):
        return int(array.sum())


@pytest.mark.usefixtures("shared_ray")
@pytest.mark.parametrize(
    "sizes", [(MIB,), (2 * MIB - 1,), (2 * MIB + 77,), (5 * MIB + 1,), (MIB, 3 * MIB + 5, 200_000)]
)
def test_every_byte_comes_whatever_part_is_copied_after_the_worker_was_told(sizes):
    arrays = [pattern(size) for size in sizes]
    holder = Holder.remote()
    # Each by itself, and all of them in one pickle with a buffer each.
    alone = ray.get(holder.echo.remote(*arrays))
    (together,) = ray.get(holder.echo.remote({"all": arrays}))
    for sent, one, other in zip(arrays, alone, together["all"], strict=True):
        np.testing.assert_array_equal(one, sent)
        np.testing.assert_array_equal(other, sent)


@pytest.mark.usefixtures("shared_ray")
def test_a_call_that_was_announced_and_never_comes_holds_nobody_up():
    holder = Holder.remote()
    array = pattern(MIB)
    for _ in range(20):
        # The first argument is copied, and the worker told, before the second turns out to be no value.
        with pytest.raises(TypeError, match="lock"):
            holder.echo.remote(array, threading.Lock())
    assert ray.get(holder.total.remote(array)) == int(array.sum())


@pytest.mark.usefixtures("ray_session")
def test_a_worker_that_dies_while_an_argument_is_copied_for_it_costs_a_restart_and_no_call():
    holder = Holder.options(max_restarts=-1, max_task_retries=-1).remote()
    array = pattern(8 * MIB)
    expected = int(array.sum())
    done = threading.Event()
    killed = []

    def kill():
        while not done.is_set() and len(killed) < 5:
            pid = ray.get(holder.pid.remote())
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        while len(killed) < 5:
            assert ray.get(holder.total.remote(array), timeout=50) == expected
    finally:
        done.set()
        killer.join()
    assert ray.get(holder.total.remote(array), timeout=50) == expected
    assert len(set(killed)) == 5


@pytest.mark.usefixtures("shared_ray")
def test_a_dead_actor_is_told_nothing_and_calls_on_it_fail():
    holder = Holder.remote()
    ray.get(holder.pid.remote())
    ray.kill(holder)
    with pytest.raises(ray.exceptions.ActorDiedError, match="kill"):
        ray.get(holder.total.remote(pattern(MIB)))
