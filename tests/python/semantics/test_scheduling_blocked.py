"""A task that waits lends its CPU, and nothing else."""

import time

import pytest

import eagleray as ray
from eagleray import _native


def workers():
    return [pid for pid, role, _ in _native.status()["processes"] if role != "driver"]


@pytest.fixture
def one_cpu():
    ray.shutdown()
    yield ray.init(num_cpus=1, num_gpus=1, resources={"licence": 1}, _memory=1000)
    ray.shutdown()


@ray.remote
def value():
    return "value"


@pytest.mark.usefixtures("one_cpu")
def test_D1a_a_task_blocked_in_get_lends_its_cpu():
    @ray.remote
    def parent():
        return ray.get(value.remote(), timeout=30)

    assert ray.get(parent.remote(), timeout=40) == "value"


@pytest.mark.usefixtures("one_cpu")
def test_D1a_a_task_blocked_in_wait_lends_its_cpu():
    @ray.remote
    def parent():
        ready, _ = ray.wait([value.remote()], timeout=30)
        return len(ready)

    assert ray.get(parent.remote(), timeout=40) == 1


@pytest.mark.usefixtures("one_cpu")
def test_D1a_an_actor_with_a_cpu_that_waits_lends_it():
    @ray.remote(num_cpus=1)
    class Parent:
        def ask(self):
            return ray.get(value.remote(), timeout=30)

    assert ray.get(Parent.remote().ask.remote(), timeout=40) == "value"


@pytest.mark.parametrize("options", [{"num_gpus": 1}, {"resources": {"licence": 1}}, {"memory": 1000}])
@pytest.mark.usefixtures("one_cpu")
def test_D1c_a_blocked_task_keeps_all_but_its_cpu(options):
    @ray.remote(**options)
    def parent():
        child = value.options(num_cpus=0, **options).remote()
        with_cpu_only = value.options(num_cpus=1).remote()
        return ray.get(with_cpu_only, timeout=30), len(ray.wait([child], timeout=1)[0])

    assert ray.get(parent.remote(), timeout=40) == ("value", 0), "what it holds was given to another"


@pytest.mark.usefixtures("one_cpu")
def test_D1d_get_of_what_is_here_lends_nothing_and_starts_no_worker():
    @ray.remote(num_cpus=1)
    def reads(boxed, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for ref in boxed:
                ray.get(ref)
                ray.wait([ref])
        return time.monotonic()

    @ray.remote(num_cpus=0.5)
    def begins():
        return time.monotonic()

    big = ray.put(b"x" * 1_000_000)
    ray.get(reads.remote([big], 0))
    before = set(workers())
    reading = reads.remote([big], 1)
    time.sleep(0.2)
    other = begins.remote()
    assert ray.wait([other], timeout=0.4)[0] == [], "it ran beside a task that holds the only CPU"
    assert set(workers()) <= before, "a further worker was started"
    ended, began = ray.get([reading, other], timeout=30)
    assert began >= ended - 0.05


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.one_node("asks its own node for what is free")
def test_D1e_availability_falls_below_zero_and_then_nothing_new_starts(tmp_path, wait_until):
    go, end = tmp_path / "go", tmp_path / "end"

    def await_file(path):
        while not path.exists():
            time.sleep(0.01)

    @ray.remote
    def parent():
        # The value comes while the other child still runs on the CPU that was lent to it.
        ray.get(awaits.remote(go), timeout=30)
        (tmp_path / "woke").touch()
        await_file(end)

    @ray.remote(num_cpus=0)
    def awaits(path):
        await_file(path)

    @ray.remote(num_cpus=0.5)
    def borrows():
        (tmp_path / "borrowed").touch()
        await_file(end)

    @ray.remote(num_cpus=0.25)
    def small():
        return "ran"

    waits = parent.remote()
    borrower = borrows.remote()
    wait_until((tmp_path / "borrowed").exists, what="the lent CPU in use")
    go.touch()
    wait_until((tmp_path / "woke").exists, what="the parent running on")
    wait_until(lambda: _native.status()["free"].get("CPU", 0) == -5_000, what="availability below zero")
    late = small.remote()
    assert ray.wait([late], timeout=0.7)[0] == [], "it was placed where there is less than nothing"
    end.touch()
    assert ray.get([waits, borrower, late], timeout=30) == [None, None, "ran"]
    wait_until(lambda: ray.available_resources().get("CPU") == 1, what="the CPU given back")
