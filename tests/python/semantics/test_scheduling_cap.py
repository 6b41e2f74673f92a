"""The soft bound on workers: nested tasks neither lock up nor fill the machine with processes."""

import time

import pytest

import eagleray as ray
from eagleray import _native


def worker_count():
    return sum(role not in ("driver", "idle", "starting") for _, role, _ in _native.status()["processes"])


@pytest.fixture
def one_cpu():
    ray.shutdown()
    yield ray.init(num_cpus=1)
    ray.shutdown()


@pytest.fixture
def waiters(tmp_path):
    """Tasks that note when they began and then wait, with their CPU lent out, until the test ends them."""
    end = tmp_path / "end"

    @ray.remote(num_cpus=0)
    def awaits_end():
        while not end.exists():
            time.sleep(0.01)

    @ray.remote
    def waiter(number, boxed):
        (tmp_path / f"began-{number}").write_text(str(time.monotonic()))
        ray.get(boxed[0])
        return number

    class Waiters:
        def start(self, count, **options):
            last = awaits_end.remote()
            return [waiter.options(**options).remote(number, [last]) for number in range(count)]

        @staticmethod
        def began():
            return sorted(float(path.read_text()) for path in tmp_path.glob("began-*") if path.read_text())

        @staticmethod
        def end():
            end.touch()

    made = Waiters()
    yield made
    end.touch()


@pytest.mark.usefixtures("no_session")
def test_D2a_as_many_of_a_kind_as_the_cpus_hold_blocked_ones_counted(waiters, wait_until):
    ray.init(num_cpus=2)
    refs = waiters.start(6)
    wait_until(lambda: len(waiters.began()) == 3, what="one more than the CPUs hold")
    _, second, third = waiters.began()
    assert third - second >= 0.9, "two CPUs hold two, and they still count while they wait"
    waiters.end()
    assert ray.get(refs, timeout=40) == list(range(6))


@pytest.mark.usefixtures("one_cpu")
def test_D2b_one_more_starts_after_one_second_and_the_next_after_two(waiters, wait_until):
    refs = waiters.start(4)
    wait_until(lambda: len(waiters.began()) == 3, what="two more than the CPU holds")
    first, second, third = waiters.began()
    # Upper bounds are generous: a slow machine adds to them. Lower ones are what the rule says.
    assert 0.9 <= second - first < 8
    assert 1.8 <= third - second < 12
    waiters.end()
    assert ray.get(refs, timeout=40) == list(range(4))


@pytest.mark.usefixtures("one_cpu")
def test_D2c_a_thousand_tasks_nested_three_deep_on_one_cpu():
    @ray.remote
    def h(number):
        return number

    @ray.remote
    def g(number):
        return ray.get(h.remote(number))

    @ray.remote
    def f(number):
        return ray.get(g.remote(number))

    refs = [f.remote(number) for number in range(1000)]
    most, waiting = 0, refs
    while waiting:
        before = len(waiting)
        _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=1)
        most = max(most, len(_native.status()["processes"]))
        assert len(waiting) < before or ray.wait(waiting, timeout=20)[0], "nothing moves"
    assert ray.get(refs) == list(range(1000))
    assert most <= 30, f"{most} processes for three tasks at a time"


@pytest.mark.usefixtures("one_cpu")
def test_D2c_a_nested_task_does_not_wait_for_the_delay():
    @ray.remote
    def deep(left):
        return 0 if left == 0 else 1 + ray.get(deep.remote(left - 1))

    ray.get(deep.remote(0))
    began = time.monotonic()
    assert ray.get(deep.remote(5), timeout=40) == 5
    assert time.monotonic() - began < 10, "with the delay at each level it would be 1 + 2 + 4 + 8 + 10 s"


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.one_node("counts the workers of its own node")
def test_D2d_tasks_that_need_no_cpu_are_not_capped(waiters, wait_until):
    refs = waiters.start(8, num_cpus=0)
    wait_until(lambda: len(waiters.began()) == 8, seconds=8, what="eight at a time (capped: over half a minute)")
    assert worker_count() >= 8
    waiters.end()
    assert ray.get(refs, timeout=40) == list(range(8))
