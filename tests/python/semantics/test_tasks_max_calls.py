"""Workers that end after so many calls."""

import gc
import os

import pytest

import eagleray as ray


@pytest.mark.usefixtures("ray_session")
class TestMaxCalls:
    def test_T10a_a_worker_exits_after_n_calls(self, wait_until, leaks):
        @ray.remote(max_calls=2)
        def pid():
            return os.getpid()

        pids = [ray.get(pid.remote()) for _ in range(10)]
        assert max(pids.count(one) for one in pids) == 2
        assert len(set(pids)) >= 5
        wait_until(lambda: not any(leaks.is_alive(one) for one in set(pids)), what="the end of every such worker")

    def test_T10a_many_calls_at_once_each_run_once(self, tmp_path):
        @ray.remote(max_calls=1)
        def once(index, folder):
            (folder / str(index)).touch(exist_ok=False)
            return index, os.getpid()

        results = ray.get([once.remote(index, tmp_path) for index in range(12)])
        assert [index for index, _ in results] == list(range(12))
        assert len({pid for _, pid in results}) == 12

    def test_T10a_calls_of_other_functions_do_not_count(self):
        @ray.remote(max_calls=3)
        def limited():
            return os.getpid()

        @ray.remote
        def other():
            return os.getpid()

        pids = [ray.get((limited if index % 2 else other).remote()) for index in range(12)]
        limited_pids = pids[1::2]
        assert max(limited_pids.count(one) for one in limited_pids) <= 3

    def test_T10a_a_large_result_outlives_its_worker(self, wait_until, leaks):
        import numpy as np

        @ray.remote(max_calls=1)
        def array():
            return os.getpid(), np.arange(1_000_000)

        pid, values = ray.get(array.remote())
        wait_until(lambda: not leaks.is_alive(pid))
        assert values.sum() == 499_999_500_000

        @ray.remote(max_calls=1)
        def large():
            return np.arange(1_000_000)

        refs = [large.remote() for _ in range(4)]
        assert [int(value.sum()) for value in ray.get(refs)] == [499_999_500_000] * 4

        @ray.remote
        def total(value):
            return int(value.sum())

        assert ray.get([total.remote(ref) for ref in refs]) == [499_999_500_000] * 4

    def test_T10b_refs_that_others_hold_are_waited_for(self, wait_until, leaks, tmp_path):
        gate = tmp_path / "gate"

        @ray.remote(num_cpus=0)
        def slow(gate):
            import time

            while not gate.exists():
                time.sleep(0.01)
            return "value"

        @ray.remote(max_calls=1, max_retries=0)
        def starts(gate):
            return os.getpid(), slow.remote(gate), ray.put("put"), ray.put(bytes(1_000_000))

        pid, task, put, large = ray.get(starts.remote(gate))
        assert leaks.is_alive(pid)
        gate.touch()
        assert ray.get([task, put]) == ["value", "put"]
        assert ray.get(large) == bytes(1_000_000)
        del task, put
        gc.collect()
        assert leaks.is_alive(pid), "one ref is still held"
        assert ray.get(large) == bytes(1_000_000)
        del large
        wait_until(lambda: not leaks.is_alive(pid), what="the end of the worker")

    def test_T10b_a_waiting_worker_holds_no_resources(self):
        @ray.remote(num_cpus=0)
        def nothing():
            return 0

        @ray.remote(num_cpus=2, max_calls=1, max_retries=0)
        def takes_all():
            return [nothing.remote()]

        held = [ray.get(takes_all.remote()) for _ in range(6)]
        assert ray.get([ref for (ref,) in held]) == [0] * 6


def test_T10b_a_waiting_worker_holds_no_gpu(no_session):
    ray.init(num_cpus=2, num_gpus=1)

    @ray.remote(num_gpus=1, max_retries=0)
    def on_gpu():
        return ray.get_gpu_ids(), ray.put(1)

    held = [ray.get(on_gpu.remote()) for _ in range(4)]
    assert [gpus for gpus, _ in held] == [[0]] * 4
    assert ray.get([ref for _, ref in held]) == [1] * 4


def test_T10b_a_waiting_worker_ends_with_its_driver(drivers, leaks):
    driver = drivers.start(
        """
        ray.init(num_cpus=2)

        @ray.remote(num_cpus=0)
        def never():
            time.sleep(1000)

        @ray.remote(max_calls=1)
        def starts():
            return os.getpid(), never.remote()

        pid, ref = ray.get(starts.remote())
        print("pid", pid, flush=True)
        input()
        """
    )
    pid = int(driver.hear_until("pid"))
    others = [process.pid for process in leaks.descendants(driver.pid)]
    assert leaks.is_alive(pid)
    driver.say("end")
    assert driver.end()[0] == 0
    leaks.check([pid, *others])


def test_T10b_a_waiting_worker_of_a_daemon_ends_with_its_driver(drivers, leaks):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    out, _ = drivers.run(
        """
        ray.init(address="auto")

        path = sys.argv[1]

        @ray.remote(num_cpus=0)
        def never():
            open(path, "w").write(str(os.getpid()))
            time.sleep(1000)

        @ray.remote(max_calls=1)
        def starts():
            return os.getpid(), never.remote()

        pid, ref = ray.get(starts.remote())
        while not os.path.exists(path) or not open(path).read():
            time.sleep(0.01)
        print(pid, open(path).read(), flush=True)
        """,
        drivers.folder / "pid",
    )
    leaks.check([int(pid) for pid in out.split()])


def test_T10c_a_function_with_gpus_serves_one_call_per_worker():
    @ray.remote(num_gpus=2)
    def on_gpus():
        return None

    @ray.remote(num_gpus=2, max_calls=0)
    def told_otherwise():
        return None

    @ray.remote(num_gpus=0)
    def on_none():
        return None

    assert on_gpus._default_options == {"max_calls": 1, "num_gpus": 2}
    assert told_otherwise._default_options == {"max_calls": 0, "num_gpus": 2}
    assert on_none._default_options == {"num_gpus": 0}


def test_T10c_gpu_tasks_run_in_fresh_workers(no_session):
    ray.init(num_cpus=2, num_gpus=2)

    @ray.remote(num_gpus=1)
    def fresh():
        return os.getpid()

    @ray.remote(num_gpus=1, max_calls=0)
    def reused():
        return os.getpid()

    assert len({ray.get(fresh.remote()) for _ in range(4)}) == 4
    assert len({ray.get(reused.remote()) for _ in range(8)}) <= 2


def test_a_failing_task_with_max_calls_raises_its_own_error_and_its_worker_ends(ray_session, wait_until, leaks):
    @ray.remote(max_calls=1)
    def fail():
        raise ValueError(os.getpid())

    for _ in range(3):
        with pytest.raises(ValueError, match=r"ValueError: \d+") as raised:
            ray.get(fail.remote())
        pid = raised.value.cause.args[0]
        assert raised.value.pid == pid
        wait_until(lambda pid=pid: not leaks.is_alive(pid))


def test_max_calls_cannot_be_set_by_options():
    @ray.remote
    def f():
        return None

    with pytest.raises(ValueError, match=r"Setting 'max_calls' is not supported in '\.options\(\)'\."):
        f.options(max_calls=1)
