"""Killing actors, at every moment of their lives and after their session."""

import contextlib
import os
import time

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, ActorHandleNotFoundError, RayActorError

pytestmark = pytest.mark.two_nodes


@pytest.fixture
def ends(leaks, wait_until):
    def wait(pid):
        wait_until(lambda: not leaks.is_alive(pid), what=f"the end of {pid}")

    return wait


def free_cpus():
    return ray.available_resources().get("CPU", 0)


@pytest.mark.usefixtures("ray_session")
def test_A15a_killing_a_pending_actor_fails_its_calls_and_it_never_runs(tmp_path, wait_until):
    @ray.remote(num_cpus=2)
    class Holder:
        def ping(self):
            return "pong"

    @ray.remote(num_cpus=1)
    class Waits:
        def __init__(self, folder):
            (folder / "built").touch()

        def method(self):
            return "answer"

    holder = Holder.remote()
    ray.get(holder.ping.remote())
    waits = Waits.remote(tmp_path)
    calls = [waits.method.remote() for _ in range(3)]
    assert ray.wait(calls, timeout=0.2)[0] == []
    ray.kill(waits)
    for call in calls:
        with pytest.raises(RayActorError, match=r"it was killed by `ray\.kill"):
            ray.get(call, timeout=30)
    ray.kill(holder)
    wait_until(lambda: free_cpus() == 2, what="all CPUs free")
    time.sleep(0.3)
    assert not (tmp_path / "built").exists()
    other = Holder.remote()
    assert ray.get(other.ping.remote(), timeout=30) == "pong"


@pytest.mark.usefixtures("ray_session")
def test_A15a_killing_an_actor_that_is_being_made_frees_what_it_holds(tmp_path, ends, wait_until):
    @ray.remote(num_cpus=2)
    class Slow:
        def __init__(self, file):
            file.write_text(str(os.getpid()))
            time.sleep(600)

        def method(self):
            return "answer"

    slow = Slow.remote(tmp_path / "pid")
    call = slow.method.remote()
    pid = int(
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), what="the constructor")
    )
    assert free_cpus() == 0
    ray.kill(slow)
    with pytest.raises(RayActorError, match=r"it was killed by `ray\.kill"):
        ray.get(call, timeout=30)
    with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
        ray.get(slow.method.remote(), timeout=30)
    ends(pid)
    wait_until(lambda: free_cpus() == 2, what="all CPUs free")


@pytest.mark.usefixtures("ray_session")
def test_A15a_killing_an_actor_that_waits_for_its_argument_fails_its_calls(wait_until):
    @ray.remote(num_cpus=0)
    def never():
        time.sleep(600)

    @ray.remote(num_cpus=1)
    class Takes:
        def __init__(self, value):
            self.value = value

        def method(self):
            return "answer"

    waits = Takes.remote(never.remote())
    call = waits.method.remote()
    assert ray.wait([call], timeout=0.5)[0] == []
    ray.kill(waits)
    with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
        ray.get(call, timeout=30)
    wait_until(lambda: free_cpus() == 2, what="all CPUs free")


@pytest.mark.usefixtures("ray_session")
def test_A15a_killing_an_actor_right_after_its_creation_leaves_nothing(wait_until):
    @ray.remote(num_cpus=1)
    class Brief:
        def method(self):
            return "answer"

    for _ in range(10):
        brief = Brief.remote()
        call = brief.method.remote()
        ray.kill(brief)
        with contextlib.suppress(RayActorError):
            assert ray.get(call, timeout=30) == "answer"
        with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
            ray.get(brief.method.remote(), timeout=30)
    wait_until(lambda: free_cpus() == 2, what="all CPUs free")


@pytest.mark.usefixtures("ray_session")
def test_A15a_killing_a_busy_actor_fails_the_call_that_runs_and_those_that_wait(ends):
    @ray.remote(num_cpus=0)
    class Busy:
        def pid(self):
            return os.getpid()

        def work(self):
            time.sleep(600)

    busy = Busy.remote()
    pid = ray.get(busy.pid.remote())
    calls = [busy.work.remote() for _ in range(3)]
    time.sleep(0.1)
    ray.kill(busy)
    ray.kill(busy)
    for call in calls:
        with pytest.raises(RayActorError, match=r"it was killed by `ray\.kill"):
            ray.get(call, timeout=30)
    ends(pid)


@pytest.mark.usefixtures("ray_session")
def test_A15b_a_kill_that_allows_a_restart_uses_one_up(ends, wait_until):
    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=-1)
    class Restarts:
        def pid(self):
            return os.getpid()

        def was_restarted(self):
            return ray.get_runtime_context().was_current_actor_reconstructed

    actor = Restarts.remote()
    first = ray.get(actor.pid.remote())
    assert ray.get(actor.was_restarted.remote()) is False
    ray.kill(actor, no_restart=False)
    ends(first)
    second = ray.get(actor.pid.remote(), timeout=30)
    assert second != first
    assert ray.get(actor.was_restarted.remote()) is True
    ray.kill(actor, no_restart=False)
    ends(second)
    with pytest.raises(RayActorError, match=r"it was killed by `ray\.kill"):
        ray.get(actor.pid.remote(), timeout=30)


@pytest.mark.usefixtures("ray_session")
def test_A15b_a_plain_kill_takes_all_restarts(ends):
    @ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    class Restarts:
        def pid(self):
            return os.getpid()

    actor = Restarts.remote()
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    with pytest.raises(RayActorError, match=r"it was killed by `ray\.kill"):
        ray.get(actor.pid.remote(), timeout=30)
    ends(pid)


@pytest.mark.usefixtures("ray_session")
def test_A15b_only_handles_can_be_killed():
    for other in (1, None, "actor", ray.put(1)):
        with pytest.raises(ValueError, match=r"ray\.kill\(\) only supported for actors"):
            ray.kill(other)


@pytest.fixture
def stale():
    """A handle of an earlier session, in a new one."""
    ray.shutdown()
    ray.init(num_cpus=1)

    @ray.remote
    class Actor:
        def method(self):
            return "answer"

    handle = Actor.remote()
    assert ray.get(handle.method.remote()) == "answer"
    ray.shutdown()
    ray.init(num_cpus=1)
    yield handle, Actor
    ray.shutdown()


def test_A15c_a_handle_of_an_earlier_session_cannot_be_killed(stale):
    handle, _ = stale
    with pytest.raises(ActorHandleNotFoundError, match="ActorHandle objects are not valid across Ray sessions"):
        ray.kill(handle)
    with pytest.raises(ValueError, match="not valid across Ray sessions"):
        ray.kill(handle, no_restart=False)


@pytest.mark.one_node("the same cluster remembers actors of earlier sessions")
def test_A15d_a_handle_of_an_earlier_session_cannot_be_called(stale):
    handle, Actor = stale
    with pytest.raises(RayActorError, match="It might be dead or it's from a different cluster"):
        ray.get(handle.method.remote())

    @ray.remote
    def call(held):
        return ray.get(held[0].method.remote())

    with pytest.raises(RayActorError, match="It might be dead or it's from a different cluster"):
        ray.get(call.remote([handle]))
    assert ray.get(Actor.remote().method.remote()) == "answer", "the class lives on"
    assert "Actor" in repr(handle)


def test_A15d_nor_can_it_without_any_session(stale):
    handle, _ = stale
    ray.shutdown()
    with pytest.raises(RayActorError, match="It might be dead or it's from a different cluster"):
        handle.method.remote()
