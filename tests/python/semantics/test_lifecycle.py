"""The end of a session and what comes after it (L3)."""

import os
import signal
import subprocess
import sys
import time

import pytest

import eagleray as ray

HOLD = """
@ray.remote
class Actor:
    def pid(self):
        return os.getpid()
    def hold(self):
        time.sleep(600)
@ray.remote
def pid():
    return os.getpid()
@ray.remote(num_cpus=0)
def hold():
    time.sleep(600)
"""


@ray.remote
def pid():
    return os.getpid()


@ray.remote(num_cpus=0)
def hold():
    time.sleep(600)


@ray.remote(num_cpus=0)
class Actor:
    def pid(self):
        return os.getpid()

    def start(self):
        """A process of the user's own, in a session of its own."""
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        return subprocess.Popen(command, start_new_session=True).pid


@pytest.mark.one_node("a cluster outlives its programs")
def test_L3a_shutdown_ends_what_workers_started_too(no_session, leaks):
    context = ray.init(num_cpus=2)
    actor, busy = Actor.remote(), hold.remote()
    pids = [ray.get(pid.remote()), ray.get(actor.pid.remote()), ray.get(actor.start.remote())]
    # Also those that nobody has called yet, and the process that forks them.
    everyone = [process.pid for process in leaks.descendants(os.getpid())]
    assert set(pids) <= set(everyone)
    ray.shutdown()
    leaks.check(everyone, context["session_dir"])
    del actor, busy


@pytest.mark.parametrize("how", ["end", "exception", "exit", "terminated", "interrupted"])
def test_L3b_so_does_any_other_end_of_the_driver(drivers, leaks, how):
    code = f"""{HOLD}
context = ray.init(num_cpus=2)
actor, busy = Actor.remote(), hold.remote()
ray.get(actor.pid.remote())
print("session", context["session_dir"])
sys.stdin.readline()
how = sys.argv[1]
if how == "exception":
    raise ValueError("an end")
if how == "exit":
    sys.exit(3)
if how in ("terminated", "interrupted"):
    time.sleep(600)
"""
    driver = drivers.start(code, how)
    session = driver.hear_until("session")
    everyone = [process.pid for process in leaks.descendants(driver.pid)]
    assert everyone
    driver.say("go")
    number = {"terminated": signal.SIGTERM, "interrupted": signal.SIGINT}.get(how)
    if number is not None:
        time.sleep(0.3)
        driver.kill(number)
    code = driver.end()[0]
    assert code == {"end": 0, "exception": 1, "exit": 3, "terminated": 15, "interrupted": -2}[how]
    leaks.check(everyone, session)


def test_L3f_threads_and_descriptors_go_with_the_session(no_session):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    def threads():
        return len(os.listdir("/proc/self/task"))

    counts = []
    for _ in range(4):
        ray.init(num_cpus=1)
        ray.get(pid.remote())
        ray.shutdown()
        counts.append((open_files(), threads()))
    assert counts[-1] == counts[1], counts
