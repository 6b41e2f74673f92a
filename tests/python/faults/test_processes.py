"""Processes that are killed, forked, or started where nobody looks. Nothing hangs, nothing is left behind."""

import copy
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, ActorUnavailableError, WorkerCrashedError


@ray.remote
def pid():
    return os.getpid()


@ray.remote
def sleep(seconds, sign=None):
    if sign is not None:
        Path(sign).touch()
    time.sleep(seconds)
    return os.getpid()


@ray.remote(num_cpus=0)
class Actor:
    """Has children of its own."""

    def pid(self):
        return os.getpid()

    def start(self, code="import time; time.sleep(600)"):
        """A process of its own, in a session of its own."""
        return subprocess.Popen([sys.executable, "-c", code], start_new_session=True).pid


def zygotes(leaks):
    """The processes that fork workers: our children that have worked in one."""
    return [process.pid for process in leaks.descendants(os.getpid()) if "_zygote" in process.command]


def test_killed_worker_costs_one_retry_and_nobody_else_anything(ray_session, tmp_path, wait_until):
    sign = tmp_path / "sign"
    others = [pid.remote() for _ in range(10)]
    ref = sleep.remote(3, str(sign))
    wait_until(sign.exists)
    sign.unlink()
    from eagleray import _native

    victims = [one for one, role, _ in _native.status()["processes"] if role == "sleep"]
    assert len(victims) == 1
    os.kill(victims[0], signal.SIGKILL)
    # Tried again, on another worker.
    wait_until(sign.exists)
    assert ray.get(ref) not in victims
    assert len(ray.get(others)) == 10


def test_killed_zygote_takes_its_workers_and_is_replaced(ray_session, leaks, tmp_path, wait_until):
    actor = Actor.options(max_restarts=-1, max_task_retries=-1).remote()
    mortal = Actor.remote()
    before = ray.get(actor.pid.remote())
    workers = [process.pid for process in leaks.descendants(os.getpid())]
    sign = tmp_path / "sign"
    retried = sleep.remote(0.5, str(sign))
    once = sleep.options(max_retries=0).remote(600)
    ray.get(mortal.pid.remote())
    wait_until(sign.exists)
    time.sleep(0.3)
    (zygote,) = [one for one in leaks.descendants(os.getpid()) if one.parent == os.getpid()]
    os.kill(zygote.pid, signal.SIGKILL)
    leaks.check(workers)
    with pytest.raises(WorkerCrashedError, match="signal 9"):
        ray.get(once, timeout=40)
    with pytest.raises(ActorDiedError, match="signal 9"):
        ray.get(mortal.pid.remote(), timeout=40)
    assert ray.get(retried, timeout=40)
    assert ray.get(actor.pid.remote(), timeout=40) != before
    assert ray.get(pid.remote(), timeout=40)


def test_killed_driver_leaves_nothing_within_two_seconds(drivers, leaks):
    code = """
    import subprocess
    context = ray.init(num_cpus=2)
    @ray.remote(num_cpus=0)
    class Actor:
        def start(self):
            command = [sys.executable, "-c", "import time; time.sleep(600)"]
            # In a session of its own, with a child in yet another one.
            inner = f"import subprocess; subprocess.Popen({command!r}, start_new_session=True).wait()"
            self.child = subprocess.Popen([sys.executable, "-c", inner], start_new_session=True)
            return self.child.pid
        def hold(self):
            time.sleep(600)
    actors = [Actor.remote() for _ in range(3)]
    print("pids", *ray.get([actor.start.remote() for actor in actors]))
    holding = [actor.hold.remote() for actor in actors]
    data = ray.put(bytes(10**7))
    print("session", context["session_dir"])
    time.sleep(600)
    """
    driver = drivers.start(code)
    children = [int(word) for word in driver.hear_until("pids").split()]
    session = driver.hear_until("session")
    deadline = time.monotonic() + 20
    while True:
        everyone = [process.pid for process in leaks.descendants(driver.pid)]
        # The zygote, three actors, three children of theirs, three children of those.
        if len(everyone) >= 10:
            break
        assert time.monotonic() < deadline, everyone
    assert set(children) <= set(everyone)
    driver.kill(signal.SIGKILL)
    # The promise is two seconds; the machine that runs the tests may be busy with something else.
    leaks.check([driver.pid, *everyone], session, seconds=10)


def test_subprocess_of_a_worker_in_its_own_session_ends_with_the_session(no_session, leaks):
    ray.init(num_cpus=1)
    actor = Actor.remote()
    child = ray.get(actor.start.remote())
    assert os.getsid(child) == child
    ray.shutdown()
    leaks.check([child])


def test_subprocess_of_a_killed_actor_ends_with_the_session(no_session, leaks):
    ray.init(num_cpus=1)
    actor = Actor.remote()
    child = ray.get(actor.start.remote())
    ray.kill(actor)
    with pytest.raises(ActorDiedError, match="killed by `ray.kill`"):
        ray.get(actor.pid.remote())
    # An orphan now, of whom nobody but the zygote knows.
    assert leaks.is_alive(child)
    ray.shutdown()
    leaks.check([child])


def test_subprocess_in_a_task_works_and_its_exit_code_arrives(ray_session):
    @ray.remote
    def run():
        done = subprocess.run([sys.executable, "-c", "import sys; print('hi'); sys.exit(3)"], capture_output=True)
        return done.returncode, done.stdout

    assert ray.get([run.remote() for _ in range(4)]) == [(3, b"hi\n")] * 4


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_pool_inside_a_task(ray_session, method):
    @ray.remote
    def pool():
        import multiprocessing

        with multiprocessing.get_context(method).Pool(2) as workers:
            return workers.map(abs, [-1, -2, -3])

    assert ray.get(pool.remote()) == [1, 2, 3]
    assert ray.get(pid.remote())


def test_pool_that_is_not_closed_ends_with_its_worker(no_session, leaks):
    ray.init(num_cpus=1)

    @ray.remote
    class Careless:
        def start(self):
            import concurrent.futures

            self.pool = concurrent.futures.ProcessPoolExecutor(2)
            list(self.pool.map(abs, [-1, -2]))
            return list(self.pool._processes)

    actor = Careless.remote()
    children = ray.get(actor.start.remote())
    assert children
    ray.shutdown()
    leaks.check(children)


@pytest.mark.parametrize("kind", ["task", "actor", "driver"])
def test_SIGTERM_ends_a_forked_child(ray_session, kind):
    # The parent's handler ran in the child: it raised what nobody took up, or, in an actor, waited for calls to end. A
    # pool of multiprocessing, which ends its processes by SIGTERM, then hung in a task now and then.
    def fork():
        ends = set()
        # At once too: a signal that came while the child was being forked was lost.
        for pause in [0.05] + [0.0] * 100:
            child = os.fork()
            if child == 0:
                try:
                    time.sleep(30)
                finally:
                    os._exit(3)
            time.sleep(pause)
            os.kill(child, signal.SIGTERM)
            ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return ends

    class Forker:
        def fork(self):
            return fork()

    if kind == "driver":
        ended = fork()
    else:
        ref = ray.remote(fork).remote() if kind == "task" else ray.remote(Forker).remote().fork.remote()
        ended = ray.get(ref, timeout=40)
    assert ended == {-signal.SIGTERM}


def test_fork_inside_a_task_cannot_use_the_api_and_harms_nobody(ray_session):
    @ray.remote
    def fork():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ray.put(1)
            except ray.exceptions.RaySystemError as error:
                code = 42 if "fork" in str(error) else 2
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert ray.get(fork.remote()) == 42
    assert ray.get(pid.remote())


def test_fork_of_the_driver_cannot_use_the_api_and_ends_without_ending_the_session(ray_session):
    ref = ray.put("mine")
    actor = Actor.remote()
    actor_pid = ray.get(actor.pid.remote())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        calls = (lambda: ray.get(ref), lambda: ray.put(1), lambda: pid.remote(), lambda: actor.pid.remote())
        for call in (*calls, lambda: ray.init(num_cpus=1)):
            try:
                call()
                said.append("worked")
            except ray.exceptions.RaySystemError as error:
                said.append("told" if "fork" in str(error) else f"other {error!r}")
            except BaseException as error:
                said.append(f"other {error!r}")
        # Copying and dropping what was inherited, and even shutting down, does nothing: it could wait for ever for a lock that a
        # thread of the parent held when it was forked.
        try:
            if (copy.copy(ref)._counts(), copy.deepcopy(ref)._counts(), ref._counts()) != ((0, 0),) * 3:
                said.append("other count")
            del ref
            ray.shutdown()
        except BaseException as error:
            said.append(f"other {error!r}")
        os.write(write, " ".join(said).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    said = os.read(read, 10_000).decode()
    os.close(read)
    assert said.split() == ["told"] * 5
    # The parent's session is whole.
    assert ray.get(ref) == "mine"
    assert ray.get(actor.pid.remote()) == actor_pid
    assert ray.get(pid.remote())


def test_multiprocessing_beside_a_session_in_the_driver(ray_session):
    import multiprocessing

    ref = ray.put("kept")
    with multiprocessing.get_context("fork").Pool(2) as workers:
        assert workers.map(abs, [-1, -2]) == [1, 2]
    assert ray.get(ref) == "kept"
    assert ray.get(pid.remote())


def test_stopped_worker_is_only_slow(ray_session, wait_until):
    actor = Actor.remote()
    victim = ray.get(actor.pid.remote())
    os.kill(victim, signal.SIGSTOP)
    ref = actor.pid.remote()
    assert ray.wait([ref], timeout=0.5)[0] == []
    assert ray.get(pid.remote())
    os.kill(victim, signal.SIGCONT)
    assert ray.get(ref, timeout=40) == victim


def test_killed_actor_that_restarts_fails_the_call_under_way_and_takes_the_next(ray_session):
    actor = Actor.options(max_restarts=1).remote()
    victim = ray.get(actor.pid.remote())
    ref = actor.__ray_call__.remote(lambda _self: time.sleep(600))
    assert ray.wait([ref], timeout=0.3)[0] == []
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(ref, timeout=40)
    assert ray.get(actor.pid.options(max_task_retries=-1).remote(), timeout=40) != victim
