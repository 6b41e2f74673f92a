"""Workers are killed at random while they work: every task ends with its value, and nothing is left over."""

import os
import random
import signal
import threading
import time

import eagleray as ray
from eagleray import _native


def _worker_pids() -> list[int]:
    return [pid for pid, role, _ in _native.status()["processes"] if role not in ("driver", "starting") and pid > 0]


class _Killer:
    """Kills a random worker every few milliseconds, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.killed = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.is_over.wait(self.random.uniform(0.01, 0.05)):
            pids = _worker_pids()
            if not pids:
                continue
            try:
                os.kill(self.random.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.killed += 1

    def __enter__(self) -> "_Killer":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()


def test_every_task_ends_with_its_value_while_workers_are_killed(ray_session):
    @ray.remote(max_retries=-1)
    def work(number):
        time.sleep(0.002)
        return number * 2

    with _Killer(seed=7) as killer:
        for _ in range(4):
            assert ray.get([work.remote(number) for number in range(250)], timeout=50) == [2 * n for n in range(250)]
    assert killer.killed >= 5, "no fault landed, so nothing was proven"


def test_chains_of_tasks_survive_killed_workers(ray_session):
    @ray.remote(max_retries=-1)
    def add_one(value):
        time.sleep(0.001)
        return value + 1

    with _Killer(seed=11) as killer:
        for _ in range(3):
            value = ray.put(0)
            for _ in range(100):
                value = add_one.remote(value)
            assert ray.get(value, timeout=50) == 100
    assert killer.killed >= 3, "no fault landed, so nothing was proven"


def test_restarting_actor_answers_every_call_while_its_worker_is_killed(ray_session):
    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Echo:
        def say(self, number):
            time.sleep(0.001)
            return number

    echo = Echo.remote()
    ray.get(echo.say.remote(0))
    with _Killer(seed=13) as killer:
        for _ in range(5):
            assert ray.get([echo.say.remote(number) for number in range(100)], timeout=50) == list(range(100))
    assert killer.killed >= 3, "no fault landed, so nothing was proven"


def test_large_results_of_killed_workers_stay_readable(ray_session):
    import numpy as np

    @ray.remote(max_retries=-1)
    def make(number):
        return np.full(100_000, number, dtype=np.int64)

    refs = [make.remote(number) for number in range(8)]
    assert len(ray.wait(refs, num_returns=8, timeout=30)[0]) == 8
    for pid in _worker_pids():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.3)
    again = [make.remote(number) for number in range(8)]
    for number, (ref, other) in enumerate(zip(refs, again, strict=True)):
        assert int(ray.get(ref).sum()) == 100_000 * number
        assert int(ray.get(other, timeout=30).sum()) == 100_000 * number


def test_all_resources_come_back_after_the_storm(ray_session):
    @ray.remote(max_retries=-1)
    def work():
        time.sleep(0.005)

    with _Killer(seed=17) as killer:
        ray.get([work.remote() for _ in range(200)], timeout=50)
    assert killer.killed >= 3, "no fault landed, so nothing was proven"
    deadline = time.monotonic() + 20
    while ray.available_resources().get("CPU") != ray.cluster_resources()["CPU"]:
        assert time.monotonic() < deadline, ray.available_resources()
        time.sleep(0.05)


def test_workers_killed_while_they_write_long_frames_leave_no_half_ones(ray_session):
    # Just below the size from which values go to the store: a frame takes long to write, and the ring holds few of them.
    @ray.remote(max_retries=-1)
    def echo(data, number):
        return data[::-1], number

    data = bytes(range(256)) * 360
    with _Killer(seed=19) as killer:
        for rounds in range(60):
            if rounds >= 6 and killer.killed >= 5:
                break
            refs = [echo.remote(data, number) for number in range(100)]
            for number, (echoed, told) in enumerate(ray.get(refs, timeout=50)):
                assert told == number
                assert echoed == data[::-1]
    assert killer.killed >= 5, "no fault landed, so nothing was proven"
