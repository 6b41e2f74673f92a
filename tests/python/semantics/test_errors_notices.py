"""Warnings that reach the driver without being asked for (E9)."""

import os
import re
import sys
import time

import pytest

import eagleray as ray
from eagleray._driver import notices as channel
from eagleray.exceptions import PendingCallsLimitExceeded


@pytest.fixture
def notices(ray_session):
    """What the driver was told, by kind. A fresh session, so that nothing of another test arrives late."""
    heard = Heard()
    channel.subscribe(heard)
    yield heard
    channel.unsubscribe(heard)


class Heard:
    def __init__(self):
        self.all = []

    def __call__(self, kind, text):
        self.all.append((kind, text))

    def texts(self, kind):
        return [text for one, text in self.all if one == kind]


@ray.remote(max_retries=0)
def crash():
    os._exit(17)


@ray.remote
def pid():
    return os.getpid()


@ray.remote
class Actor:
    def __init__(self, gate=None):
        self.gate = gate

    def pid(self):
        return os.getpid()

    def hold(self):
        while self.gate is not None and not os.path.exists(self.gate):
            time.sleep(0.01)

    def leave(self):
        ray.actor.exit_actor()


def test_E9a_worker_died_after_a_crash(notices, wait_until):
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 17"):
        ray.get(crash.remote())
    (text,) = wait_until(lambda: notices.texts("worker_died"))
    assert "exit code 17" in text
    assert "pid=" in text


def test_E9a_also_of_an_actor_and_with_the_signal(notices, wait_until):
    actor = Actor.remote()
    victim = ray.get(actor.pid.remote())
    os.kill(victim, 9)
    (text,) = wait_until(lambda: notices.texts("worker_died"))
    assert f"pid={victim}" in text
    assert "SIGKILL" in text


def test_E9a_also_after_an_exit_code_of_zero_that_python_did_not_bring_about(notices, wait_until):
    @ray.remote(max_retries=0)
    def crash_quietly():
        os._exit(0)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 0"):
        ray.get(crash_quietly.remote())
    (text,) = wait_until(lambda: notices.texts("worker_died"))
    assert "exit code 0" in text


def test_E9b_not_after_an_intended_exit(notices, leaks, wait_until):
    @ray.remote(max_calls=1)
    def once():
        return os.getpid()

    @ray.remote
    def endless():
        time.sleep(60)

    @ray.remote(max_retries=0)
    def exits():
        sys.exit(0)

    pids = [ray.get(once.remote())]
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="INTENDED_USER_EXIT"):
        ray.get(exits.remote())
    killed, left, dropped = Actor.remote(), Actor.remote(), Actor.remote()
    pids += ray.get([killed.pid.remote(), left.pid.remote(), dropped.pid.remote()])
    ray.kill(killed)
    with pytest.raises(ray.exceptions.ActorDiedError, match="exited by itself"):
        ray.get(left.leave.remote())
    del dropped
    ref = endless.remote()
    time.sleep(0.2)
    ray.cancel(ref, force=True)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    leaks.check(pids)
    # A crash is told after all of them: whatever was to be said about them has been said before.
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 17"):
        ray.get(crash.remote())
    wait_until(lambda: notices.texts("worker_died"))
    assert ["exit code 17" in text for text in notices.texts("worker_died")] == [True]


def test_E9c_worker_pool_large(notices, wait_until):
    # A few actors are nothing out of the ordinary, also on two CPUs. It was told of six, and again of 8, 12 and 16.
    actors = [Actor.options(num_cpus=0).remote() for _ in range(24)]
    ray.get([actor.pid.remote() for actor in actors])
    assert notices.texts("worker_pool_large") == []
    actors += [Actor.options(num_cpus=0).remote() for _ in range(16)]
    ray.get([actor.pid.remote() for actor in actors])
    (text,) = wait_until(lambda: notices.texts("worker_pool_large"))
    assert re.search(r"3[2-9] worker processes are in use .* 2 CPUs", text)


def test_E9e_thousands_of_pending_calls_and_each_doubling(notices, tmp_path, wait_until):
    gate = tmp_path / "gate"
    actor = Actor.remote(str(gate))
    first = actor.hold.remote()
    refs = [actor.pid.remote() for _ in range(4000)]
    time.sleep(0.5)
    assert notices.texts("excess_queueing_warning") == []
    refs += [actor.pid.remote() for _ in range(1500)]
    (text,) = wait_until(lambda: notices.texts("excess_queueing_warning"))
    assert "more than 5000 calls" in text
    assert actor._actor_id.hex() in text
    refs += [actor.pid.remote() for _ in range(3000)]
    time.sleep(0.5)
    assert len(notices.texts("excess_queueing_warning")) == 1
    refs += [actor.pid.remote() for _ in range(2000)]
    wait_until(lambda: len(notices.texts("excess_queueing_warning")) == 2)
    assert "more than 10000 calls" in notices.texts("excess_queueing_warning")[1]
    gate.touch()
    ray.get([first, *refs])


def test_E9f_detached_actor_in_an_anonymous_namespace(notices, wait_until):
    named = Actor.options(name="found", namespace="named", lifetime="detached").remote()
    owned = Actor.options(name="owned").remote()
    hidden = Actor.options(name="hidden", lifetime="detached").remote()
    ray.get([actor.pid.remote() for actor in (named, owned, hidden)])
    (text,) = wait_until(lambda: notices.texts("detached_actor_anonymous_namespace"))
    assert "'hidden'" in text
    assert ray.get_runtime_context().namespace in text
    for actor in (named, hidden):
        ray.kill(actor)


def test_E9f_also_from_inside_a_task(notices, wait_until):
    @ray.remote
    def make():
        actor = Actor.options(name="inner", lifetime="detached").remote()
        ray.get(actor.pid.remote())

    ray.get(make.remote())
    (text,) = wait_until(lambda: notices.texts("detached_actor_anonymous_namespace"))
    assert "'inner'" in text
    ray.kill(ray.get_actor("inner"))


def test_E9g_eleventh_call_beyond_max_pending_calls_raises_at_once(notices, tmp_path):
    gate = tmp_path / "gate"
    actor = Actor.options(max_pending_calls=10).remote(str(gate))
    refs = [actor.hold.remote() for _ in range(10)]
    # It named neither the actor nor the method nor the option.
    words = (
        rf"Actor\.pid was not called: the actor {actor._actor_id.hex()} has 10 pending calls .* max_pending_calls=10"
    )
    with pytest.raises(PendingCallsLimitExceeded, match=words):
        actor.pid.remote()
    gate.touch()
    ray.get(refs)
    # Once they have ended there is room again.
    assert ray.get(actor.pid.remote())


def test_notices_are_printed_on_the_drivers_stderr(drivers):
    code = """
    ray.init(num_cpus=1)
    @ray.remote(max_retries=0)
    def crash():
        os._exit(23)
    try:
        ray.get(crash.remote())
    except ray.exceptions.WorkerCrashedError:
        pass
    """
    out, err = drivers.run(code)
    assert "exit code 23" in err
    assert out == ""
