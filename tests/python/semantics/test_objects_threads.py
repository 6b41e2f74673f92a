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


def test_O12a_a_thread_is_woken_by_its_own_result_whoever_takes_it_up():
    """Many more threads than cores, each with one call under way at a time: a thread sleeps beside another that listens for both."""

    def work(index):
        return [ray.get(give.remote((index, turn)), timeout=30) for turn in range(100)]

    assert in_threads(16, work) == [[(index, turn) for turn in range(100)] for index in range(16)]


def test_O12a_the_thread_that_listens_may_leave_while_others_still_wait(gate, tmp_path):
    second = tmp_path / "second"
    refs = [held.remote(second, index) for index in range(8)]
    began = threading.Barrier(9)

    def wait_for(index):
        began.wait(30)
        return ray.get(refs[index] if index < 8 else held.remote(gate, index), timeout=30)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(9) as pool:
        waits = [pool.submit(wait_for, index) for index in (8, *range(8))]
        try:
            gate.touch()
            assert waits[0].result(30) == 8
        finally:
            second.touch()
        assert [wait.result(30) for wait in waits[1:]] == list(range(8))


def test_O12a_a_failure_anywhere_in_a_list_ends_the_get_of_a_thread_beside_the_listener(gate):
    @ray.remote(num_cpus=0, max_retries=0)
    def fails(gate):
        while not gate.exists():
            time.sleep(0.01)
        raise ValueError("this one")

    never, release = gate.with_name("never"), gate
    slow = held.remote(never)
    failing = fails.remote(release)

    def wait_for(index):
        if index == 0:
            return ray.get(slow, timeout=30)
        with pytest.raises(ValueError, match="this one"):
            ray.get([slow, failing, slow], timeout=30)
        never.touch()
        return None

    release.touch()
    assert in_threads(2, wait_for) == [None, None]
