"""The end of a session: nothing is left of it, and the next one knows nothing of it."""

import os
from pathlib import Path

import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("no_session")


@ray.remote
def pid_of_worker():
    return os.getpid()


def start():
    """A session at work: its context, the pids of all that it started."""
    context = ray.init(num_cpus=2)
    ray.get([pid_of_worker.remote() for _ in range(8)])
    return context


@pytest.mark.one_node("a cluster outlives its programs")
def test_L3a_shutdown_ends_every_worker(leaks):
    @ray.remote
    class Actor:
        def child(self):
            import subprocess

            return subprocess.Popen(["sleep", "600"], start_new_session=True).pid

    @ray.remote
    def busy():
        import time

        time.sleep(600)

    context = start()
    actors = [Actor.remote() for _ in range(2)]
    children = ray.get([actor.child.remote() for actor in actors], timeout=30)
    pending = [busy.remote() for _ in range(3)]
    pids = {process.pid for process in leaks.descendants(os.getpid())} | set(children)
    assert len(pids) >= 4
    ray.shutdown()
    leaks.check(pids, context["session_dir"])
    assert len(pending) == 3


PROGRAM = """
context = ray.init(num_cpus=2)

@ray.remote
class Actor:
    def ping(self):
        return os.getpid()

@ray.remote
def busy():
    time.sleep(600)

actor = Actor.remote()
ray.get(actor.ping.remote())
ref = busy.remote()
print("ready", context["session_dir"], flush=True)
time.sleep(600)
"""


def test_L3b_sigkill_of_the_driver_ends_every_worker(drivers, leaks, wait_until):
    driver = drivers.start(PROGRAM)
    folder = driver.hear_until("ready")
    wait_until(lambda: len(leaks.descendants(driver.pid)) >= 3, what="launcher and two workers")
    pids = [process.pid for process in leaks.descendants(driver.pid)]
    driver.kill()
    leaks.check(pids, folder)


def test_L3c_shutdown_twice_and_without_a_session():
    ray.shutdown()
    start()
    ray.shutdown()
    ray.shutdown()
    assert not ray.is_initialized()


def test_L3d_L3e_init_works_again_with_a_folder_of_its_own():
    folders = set()
    for _ in range(3):
        context = start()
        assert ray.is_initialized()
        folder = context["session_dir"]
        assert Path(folder).is_dir()
        assert folder not in folders
        folders.add(folder)
        ray.shutdown()
        assert not ray.is_initialized()


def test_L3d_a_session_as_context_manager_ends_with_its_block():
    with ray.init(num_cpus=1) as context:
        assert ray.get(pid_of_worker.remote()) != os.getpid()
        assert context["address"] == context.address_info["address"]
    assert not ray.is_initialized()
    with ray.init(num_cpus=1):
        assert ray.get(pid_of_worker.remote()) != os.getpid()


def test_L3f_nothing_of_the_earlier_session_is_in_the_next(leaks):
    @ray.remote
    class Named:
        def ping(self):
            return "pong"

    ray.init(num_cpus=2, num_gpus=1, resources={"licence": 3}, namespace="same")
    first_id = ray.get_runtime_context().get_node_id()
    named = Named.options(name="named", lifetime="detached").remote()
    ray.get(named.ping.remote())
    ref = ray.put("value")
    workers = {process.pid for process in leaks.descendants(os.getpid())}
    ray.shutdown()

    ray.init(num_cpus=1, namespace="same")
    assert ray.get_runtime_context().get_node_id() != first_id
    resources = ray.cluster_resources()
    assert (resources["CPU"], resources.get("GPU"), resources.get("licence")) == (1, None, None)
    with pytest.raises(ValueError, match="Failed to look up actor"):
        ray.get_actor("named")
    with pytest.raises(ValueError, match="from an earlier session"):
        ray.get(ref, timeout=5)
    with pytest.raises(ray.exceptions.ActorDiedError, match="different cluster"):
        ray.get(named.ping.remote(), timeout=5)
    assert ray.get(pid_of_worker.remote(), timeout=30) not in workers


def test_L3d_a_second_init_is_refused_unless_asked_for():
    first = ray.init(num_cpus=1)
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init(num_cpus=1)
    assert ray.init(num_cpus=1, ignore_reinit_error=True) is first
