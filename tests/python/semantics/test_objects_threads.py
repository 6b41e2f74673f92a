"""get and wait from several threads of one process."""

import threading
import time

import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def give(value):
    return value


@ray.remote(num_cpus=0)
def held(gate, value=None):
    while not gate.exists():
        time.sleep(0.01)
    return value


@pytest.fixture
def gate(tmp_path):
    """Tasks that wait for this file end at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()


def in_threads(count, function):
    """Runs the function in so many threads; returns what they returned and raises what one of them raised."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, range(count)))


def test_O12a_one_threads_slow_get_does_not_hold_up_another(gate):
    results = []
    slow = threading.Thread(target=lambda: results.append(ray.get(held.remote(gate, "slow"))))
    slow.start()
    time.sleep(0.05)
    for index in range(200):
        assert ray.get(give.remote(index)) == index
    assert ray.wait([ray.put(1)], timeout=0)[0]
    assert results == []
    gate.touch()
    slow.join()
    assert results == ["slow"]


def test_O12a_many_threads_wait_and_work_side_by_side(gate):
    refs = [held.remote(gate, index) for index in range(2)]

    def work(index):
        if index < 4:
            return ray.get(refs[index % 2])
        total = sum(ray.get([give.remote(number) for number in range(20)]))
        ready, _ = ray.wait([give.remote(index) for _ in range(5)], num_returns=5)
        assert len(ready) == 5
        if index == 7:
            time.sleep(0.2)
            gate.touch()
        return total

    assert in_threads(8, work) == [0, 1, 0, 1, 190, 190, 190, 190]


def test_O12a_threads_may_get_the_same_ref(gate):
    ref = held.remote(gate, bytes(1_000_000))

    def work(index):
        if index == 0:
            time.sleep(0.1)
            gate.touch()
        return len(ray.get(ref))

    assert in_threads(8, work) == [1_000_000] * 8


def test_O12a_threads_of_a_task_do_not_hold_each_other_up(gate):
    @ray.remote
    def outer(gate):
        results = []
        slow = threading.Thread(target=lambda: results.append(ray.get(held.remote(gate, "slow"))))
        slow.start()
        quick = [ray.get(give.remote(index)) for index in range(20)]
        open(gate, "w").close()
        slow.join()
        return quick, results

    assert ray.get(outer.remote(gate)) == (list(range(20)), ["slow"])


def test_O12a_a_threads_timeout_is_its_own(gate):
    ref = held.remote(gate)
    slow = threading.Thread(target=lambda: ray.get(ref))
    slow.start()
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(ref, timeout=0.05)
    assert slow.is_alive()
    gate.touch()
    slow.join()
