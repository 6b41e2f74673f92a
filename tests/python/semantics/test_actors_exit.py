"""How an actor ends itself."""

import asyncio
import os
import sys
import threading

import pytest

import eagleray as ray
from eagleray.actor import exit_actor
from eagleray.exceptions import ActorDiedError, ActorUnavailableError, AsyncioActorExit, RayActorError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@pytest.fixture
def ends(leaks, wait_until):
    def wait(pid):
        wait_until(lambda: not leaks.is_alive(pid), what=f"the end of {pid}")

    return wait


@ray.remote(num_cpus=0)
class Plain:
    def pid(self):
        return os.getpid()

    def leave(self, file):
        try:
            exit_actor()
        except SystemExit as error:
            file.write_text(f"raised {type(error).__mro__[1].__name__}")
            raise
        file.write_text("went on")

    def leave_and_catch(self, file):
        try:
            exit_actor()
        except BaseException:
            file.write_text("caught")
        return "answer"


@ray.remote(num_cpus=0)
class Async:
    async def pid(self):
        return os.getpid()

    async def leave(self, file):
        try:
            exit_actor()
        except AsyncioActorExit as error:
            file.write_text(f"raised {type(error).__name__}")
            raise
        file.write_text("went on")

    async def leave_and_catch(self, file):
        try:
            exit_actor()
        except BaseException:
            file.write_text("caught")
        await asyncio.sleep(0.05)
        return "answer"

    async def leave_in_a_task(self, file):
        async def nested():
            await asyncio.sleep(0.01)
            exit_actor()
            file.write_text("went on")

        await asyncio.create_task(nested())
        file.write_text("went on after the task")

    async def leave_in_a_task_nobody_awaits(self):
        async def nested():
            await asyncio.sleep(0.05)
            exit_actor()

        self.task = asyncio.create_task(nested())
        return "left it running"

    async def leave_in_a_gather(self, file):
        async def nested():
            exit_actor()

        await asyncio.gather(asyncio.sleep(0.01), nested())
        file.write_text("went on")

    def leave_plainly(self):
        exit_actor()


ASYNC = pytest.param(Async, id="async")
SYNC = pytest.param(Plain, id="sync")
THREADED = pytest.param(Plain.options(max_concurrency=3), id="threaded")


def test_A8a_exit_actor_raises_system_exit_and_nothing_after_it_runs(tmp_path, ends):
    actor = Plain.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(actor.leave.remote(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "raised SystemExit"
    ends(pid)
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(actor.pid.remote())


def test_A8a_an_actor_that_left_is_not_restarted():
    actor = Plain.options(max_restarts=5, max_task_retries=5).remote()
    first = ray.get(actor.pid.remote())
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(actor.__ray_terminate__.remote())
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(actor.pid.remote())
    assert first


def test_A8b_exit_actor_raises_asyncio_actor_exit_in_a_coroutine(tmp_path, ends):
    actor = Async.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(actor.leave.remote(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "raised AsyncioActorExit"
    ends(pid)


def test_A8b_a_plain_method_of_an_async_actor_can_end_it_too(ends):
    actor = Async.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(actor.leave_plainly.remote())
    ends(pid)


@pytest.mark.parametrize("made", [SYNC, ASYNC, THREADED])
def test_A8c_an_actor_that_catches_the_exit_ends_all_the_same(made, tmp_path, ends):
    actor = made.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(actor.leave_and_catch.remote(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "caught"
    ends(pid)


@pytest.mark.parametrize("is_caught", [False, True], ids=["raised", "caught"])
@pytest.mark.parametrize("kind", ["sync", "async", "threaded"])
def test_A8d_exit_actor_works_in_a_constructor(kind, is_caught, tmp_path, ends):
    class Leaves:
        def __init__(self, file):
            file.write_text(str(os.getpid()))
            try:
                exit_actor()
            except BaseException:
                if not is_caught:
                    raise

        def method(self):
            return "answer"

    class LeavesAsync(Leaves):
        async def __init__(self, file):
            super().__init__(file)
            await asyncio.sleep(0.05)

        async def method(self):
            return "answer"

    cls = LeavesAsync if kind == "async" else Leaves
    options = {"max_concurrency": 3} if kind == "threaded" else {}
    actor = ray.remote(num_cpus=0, max_restarts=3, **options)(cls).remote(tmp_path / "pid")
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(actor.method.remote())
    ends(int((tmp_path / "pid").read_text()))


def test_A8e_exit_actor_works_in_a_nested_task(tmp_path, ends):
    actor = Async.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(actor.leave_in_a_task.remote(tmp_path / "file"))
    assert not (tmp_path / "file").exists()
    ends(pid)


def test_A8e_it_works_in_gather(tmp_path, ends):
    actor = Async.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayActorError, match="exit_actor"):
        ray.get(actor.leave_in_a_gather.remote(tmp_path / "file"))
    assert not (tmp_path / "file").exists()
    ends(pid)


def test_A8e_it_works_in_a_task_that_outlives_its_call(ends):
    actor = Async.remote()
    pid = ray.get(actor.pid.remote())
    assert ray.get(actor.leave_in_a_task_nobody_awaits.remote()) == "left it running"
    ends(pid)


def test_A8e_it_works_on_a_thread_of_the_actors_own(ends):
    @ray.remote(num_cpus=0)
    class Threads:
        def leave(self):
            threading.Thread(target=exit_actor).start()
            return os.getpid()

    @ray.remote(num_cpus=0)
    class AsyncThreads:
        async def leave(self):
            threading.Thread(target=exit_actor).start()
            return os.getpid()

    for cls in (Threads, AsyncThreads):
        actor = cls.remote()
        ends(ray.get(actor.leave.remote()))


def test_A8f_exit_actor_outside_of_an_actor_is_an_error():
    with pytest.raises(TypeError, match="exit_actor API is called on a non-actor worker"):
        exit_actor()

    @ray.remote
    def task():
        exit_actor()

    with pytest.raises(TypeError, match="exit_actor API is called on a non-actor worker"):
        ray.get(task.remote())


def test_A8a_exit_code_zero_is_an_exit_by_will_and_others_are_crashes(ends):
    @ray.remote(num_cpus=0, max_restarts=1)
    class Exits:
        def pid(self):
            return os.getpid()

        def exit(self, code):
            sys.exit(code)

    willing, crashing = Exits.remote(), Exits.remote()
    pids = ray.get([willing.pid.remote(), crashing.pid.remote()])
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(willing.exit.remote(0))
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(crashing.exit.remote(3))
    for pid in pids:
        ends(pid)
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(willing.pid.remote())
    assert ray.get(crashing.pid.options(max_task_retries=-1).remote()) not in pids


@pytest.mark.parametrize("kind", ["sync", "async", "threaded"])
def test_A8l_os_exit_with_code_zero_is_a_crash_that_is_restarted_and_retried(kind, signs):
    # It was taken for an end by will: the actor was dead for good, whatever max_restarts said.
    class Exits:
        def pid(self):
            return os.getpid()

        def exit_once(self, signs):
            if not signs.count("ran"):
                signs.set("ran")
                os._exit(0)
            return os.getpid()

    class ExitsAsync(Exits):
        async def exit_once(self, signs):
            return super().exit_once(signs)

    options = {"max_concurrency": 3} if kind == "threaded" else {}
    cls = ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1, **options)(
        ExitsAsync if kind == "async" else Exits
    )
    actor = cls.remote()
    first = ray.get(actor.pid.remote())
    second = ray.get(actor.exit_once.remote(signs))
    assert second not in (first, None)
    assert ray.get(actor.pid.remote()) == second


def test_A8l_without_a_restart_left_it_is_dead_of_a_crash():
    @ray.remote(num_cpus=0)
    class Exits:
        def exit(self):
            os._exit(0)

    with pytest.raises(ActorDiedError, match="worker process has died.*exit code 0") as raised:
        ray.get(Exits.remote().exit.remote())
    assert "INTENDED_USER_EXIT" not in str(raised.value)


def test_A8l_os_exit_in_a_constructor_uses_up_restarts(signs):
    @ray.remote(num_cpus=0, max_restarts=2)
    class Exits:
        def __init__(self, signs):
            signs.set("built")
            if signs.count("built") < 3:
                os._exit(0)

        def pid(self):
            return os.getpid()

    assert ray.get(Exits.remote(signs).pid.options(max_task_retries=-1).remote())
    assert signs.count("built") == 3
