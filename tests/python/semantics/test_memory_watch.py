"""What happens when the machine runs low on memory. The tests say what memory there is: none is really used up."""

import os
import signal
import time

import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import OutOfMemoryError, WorkerCrashedError

FINE, LOW = 900, 10


class Meminfo:
    """A stand-in for /proc/meminfo."""

    def __init__(self, path):
        self.path = path
        self.set(FINE)

    def set(self, available):
        # At once: a reader never sees half of it.
        new = self.path.with_suffix(".new")
        new.write_text(f"MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: {available} kB\n")
        new.rename(self.path)


@pytest.fixture
def meminfo(tmp_path):
    return Meminfo(tmp_path / "meminfo")


@pytest.fixture
def session(no_session, meminfo):
    """Starts a session that takes its memory from the file."""

    def start(cpus=2, **settings):
        config = {"memory_monitor_refresh_ms": 20, **settings}
        return ray.init(num_cpus=cpus, _meminfo=str(meminfo.path), _system_config=config)

    return start


def sleeper(signs):
    @ray.remote
    def sleeps(name, seconds=600):
        signs.set(name)
        if signs.count(name) == 1:
            time.sleep(seconds)
        return name, signs.count(name)

    return sleeps


def test_S4a_a_task_without_retries_raises_out_of_memory_error(session, meminfo, signs):
    session()
    ref = sleeper(signs).options(max_retries=0).remote("it")
    signs.wait("it")
    meminfo.set(LOW)
    with pytest.raises(OutOfMemoryError) as caught:
        ray.get(ref, timeout=40)
    meminfo.set(FINE)
    text = str(caught.value)
    # proves: S4b
    assert "Task was killed due to the node running low on memory" in text
    assert "worker(s) were killed due to the node running low on memory" in text
    assert "0.9900" in text, "what was used"
    assert "threshold of 0.95" in text
    assert "sleeps (pid=" in text, "whom it hit"
    rows = text.split("PID\tMEM(GB)\tCOMMAND\n")[1].splitlines()
    assert len([row for row in rows if row.count("\t") == 2]) == 10
    assert ray.get(sleeper(signs).remote("it"), timeout=40) == ("it", 2), "and the session goes on"


def test_S4c_a_task_with_retries_is_run_again_without_spending_them(session, meminfo, signs, wait_until):
    # A look per second: memory is said to be fine again long before the next one is to go.
    session(memory_monitor_refresh_ms=1000)

    @ray.remote(max_retries=1)
    def sleeps(name, runs):
        with open(os.path.join(signs.folder, f"pid of {name}"), "w") as file:
            file.write(str(os.getpid()))
        signs.set(name)
        if signs.count(name) < runs:
            time.sleep(600)
        return signs.count(name)

    def pid(name):
        with open(os.path.join(signs.folder, f"pid of {name}")) as file:
            return int(file.read())

    first = sleeps.remote("first", 2)
    signs.wait("first")
    newest = sleeps.remote("newest", 3)
    for run in (1, 2):
        wait_until(lambda run=run: signs.count("newest") == run, what=f"run {run}")
        running = pid("newest")
        meminfo.set(LOW)
        wait_until(lambda running=running: not os.path.exists(f"/proc/{running}"), what="the newest killed")
        meminfo.set(FINE)
    assert ray.get(newest, timeout=40) == 3
    assert signs.count("first") == 1, "the oldest was left alone"
    del first


def test_S4j_nothing_new_starts_while_memory_is_low(session, meminfo, signs, wait_until):
    session(memory_monitor_refresh_ms=1000)
    final = sleeper(signs).options(max_retries=0).remote("final")
    signs.wait("final")

    @ray.remote
    def probe():
        return "ran"

    meminfo.set(LOW)
    probes = []

    def is_closed():
        # Each asks for something else, so that none runs under the lease of the one before.
        probes.append(probe.options(num_cpus=0.001 * (len(probes) + 1)).remote())
        ray.wait(probes, num_returns=len(probes), timeout=0.05)
        return any("memory is no longer low" in what for _, what, _ in _native.status()["waiting"])

    wait_until(is_closed, what="a task that waits for memory")
    with pytest.raises(OutOfMemoryError):
        ray.get(final, timeout=40)
    meminfo.set(FINE)
    assert ray.get(probes, timeout=40) == ["ran"] * len(probes)


def test_S4d_the_newest_retriable_task_goes_first_and_actors_last(session, meminfo, signs):
    # Time enough between two kills to say that memory is fine again: the actor would be next.
    session(cpus=4, memory_monitor_refresh_ms=500)

    @ray.remote
    class Keeper:
        def pid(self):
            return os.getpid()

    keeper = Keeper.remote()
    pid = ray.get(keeper.pid.remote(), timeout=30)
    sleeps = sleeper(signs)
    final = sleeps.options(max_retries=0).remote("final")
    signs.wait("final")
    retriable = sleeps.remote("retriable")
    signs.wait("retriable")
    meminfo.set(LOW)
    with pytest.raises(OutOfMemoryError):
        ray.get(final, timeout=40)
    meminfo.set(FINE)
    # The final one was killed second: the other one had gone before it, and runs again now.
    assert ray.get(retriable, timeout=40) == ("retriable", 2)
    assert ray.get(keeper.pid.remote(), timeout=30) == pid


def test_S4e_an_actor_raises_out_of_memory_error_and_restarts_if_it_may(session, meminfo, wait_until):
    session()

    @ray.remote
    class Keeper:
        def pid(self):
            return os.getpid()

        def sleep(self):
            time.sleep(600)

    once = Keeper.remote()
    ray.get(once.pid.remote(), timeout=30)
    ref = once.sleep.remote()
    meminfo.set(LOW)
    with pytest.raises(OutOfMemoryError, match="low on memory"):
        ray.get(ref, timeout=40)
    with pytest.raises(OutOfMemoryError):
        ray.get(once.pid.remote(), timeout=40)
    meminfo.set(FINE)
    # On a busy machine the next one may be there, and be hit too, before memory is fine again.
    again = Keeper.options(max_restarts=-1, max_task_retries=-1).remote()
    before = ray.get(again.pid.remote(), timeout=30)
    meminfo.set(LOW)
    wait_until(lambda: not os.path.exists(f"/proc/{before}"), what="the actor's process gone")
    meminfo.set(FINE)
    assert ray.get(again.pid.remote(), timeout=40) != before


def test_S4f_retries_for_want_of_memory_have_a_budget_of_their_own(session, meminfo, signs):
    session(cpus=2, task_oom_retries=0)
    sleeps = sleeper(signs).options(max_retries=5)
    oldest = sleeps.options(max_retries=0).remote("oldest")
    signs.wait("oldest")
    newest = sleeps.remote("newest")
    signs.wait("newest")
    meminfo.set(LOW)
    with pytest.raises(OutOfMemoryError):
        ray.get(newest, timeout=40)
    meminfo.set(FINE)
    assert signs.count("newest") == 1
    del oldest


def test_S4g_one_that_ran_alone_spends_its_ordinary_retries(session, meminfo, signs):
    session(cpus=1)

    @ray.remote(max_retries=1)
    def hungry():
        signs.set("hungry")
        time.sleep(600)

    ref = hungry.remote()
    signs.wait("hungry")
    meminfo.set(LOW)
    with pytest.raises(OutOfMemoryError, match=r"2 worker\(s\) were killed"):
        ray.get(ref, timeout=40)


def test_S4h_nothing_is_watched_if_it_is_turned_off(session, meminfo, signs):
    session(memory_monitor_refresh_ms=0)
    meminfo.set(LOW)
    ref = sleeper(signs).options(max_retries=0).remote("it", seconds=0.5)
    assert ray.get(ref, timeout=40) == ("it", 1)


def test_S4h_the_threshold_is_a_setting(session, meminfo, signs):
    session(memory_usage_threshold=0.995)
    meminfo.set(LOW)
    ref = sleeper(signs).options(max_retries=0).remote("it", seconds=0.5)
    assert ray.get(ref, timeout=40) == ("it", 1)
    ray.shutdown()
    with pytest.raises(ValueError, match="memory_usage_threshold"):
        session(memory_usage_threshold=95)


def test_S4i_a_kill_by_somebody_else_is_not_called_a_want_of_memory(session, signs):
    session()

    @ray.remote(max_retries=0)
    def pid():
        with open(os.path.join(signs.folder, "pid"), "w") as file:
            file.write(str(os.getpid()))
        signs.set("runs")
        time.sleep(600)

    ref = pid.remote()
    signs.wait("runs")
    with open(os.path.join(signs.folder, "pid")) as file:
        os.kill(int(file.read()), signal.SIGKILL)
    with pytest.raises(WorkerCrashedError, match="SIGKILL"):
        ray.get(ref, timeout=40)
