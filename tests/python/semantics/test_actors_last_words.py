"""What an actor runs when it ends: exit handlers and `__ray_shutdown__`."""

import atexit
import os
import time

import pytest

import eagleray as ray
from eagleray.actor import exit_actor
from eagleray.exceptions import ActorDiedError, RayActorError

pytestmark = pytest.mark.two_nodes


@pytest.fixture
def ends(leaks, wait_until):
    def wait(pid, seconds=20.0):
        wait_until(lambda: not leaks.is_alive(pid), seconds=seconds, what=f"the end of {pid}")

    return wait


@ray.remote(num_cpus=0)
class Plain:
    """Appends to a file what it runs at its end."""

    def __init__(self, file):
        self.file = file
        atexit.register(self.say, "atexit")

    def say(self, word):
        with self.file.open("a") as out:
            out.write(f"{word} ")

    def pid(self):
        return os.getpid()

    def leave(self):
        exit_actor()

    def __ray_shutdown__(self):
        self.say("shutdown")


@ray.remote(num_cpus=0)
class Async:
    def __init__(self, file):
        self.file = file
        atexit.register(self.say, "atexit")

    def say(self, word):
        with self.file.open("a") as out:
            out.write(f"{word} ")

    async def pid(self):
        return os.getpid()

    async def leave(self):
        exit_actor()

    async def __ray_shutdown__(self):
        import asyncio

        await asyncio.sleep(0.01)
        self.say("shutdown")


KINDS = [
    pytest.param(Plain, id="sync"),
    pytest.param(Async, id="async"),
    pytest.param(Plain.options(max_concurrency=3), id="threaded"),
]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "last-words"


def words(file):
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.usefixtures("shared_ray")
def test_A8g_A8i_exit_actor_runs_shutdown_and_then_exit_handlers(made, file, ends):
    actor = made.remote(file)
    pid = ray.get(actor.pid.remote())
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(actor.leave.remote())
    ends(pid)
    assert words(file) == ["shutdown", "atexit"]


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.usefixtures("shared_ray")
def test_A8g_A8i_so_does_ray_terminate(made, file, ends):
    actor = made.remote(file)
    pid = ray.get(actor.pid.remote())
    actor.__ray_terminate__.remote()
    ends(pid)
    assert words(file) == ["shutdown", "atexit"]
    with pytest.raises(ActorDiedError, match="exited by itself"):
        ray.get(actor.pid.remote())


@pytest.mark.usefixtures("shared_ray")
def test_A8g_ray_terminate_comes_after_the_calls_before_it(file, ends):
    actor = Plain.remote(file)
    pid = ray.get(actor.pid.remote())
    calls = [actor.say.remote(str(number)) for number in range(20)]
    actor.__ray_terminate__.remote()
    ray.get(calls)
    ends(pid)
    assert words(file) == [*map(str, range(20)), "shutdown", "atexit"]


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.usefixtures("shared_ray")
def test_A8h_A8i_kill_runs_neither(made, file, ends):
    actor = made.remote(file)
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    ends(pid)
    time.sleep(0.2)
    assert words(file) == []


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.usefixtures("shared_ray")
def test_A8i_both_run_when_the_last_handle_is_gone(made, file, ends):
    actor = made.remote(file)
    pid = ray.get(actor.pid.remote())
    del actor
    ends(pid)
    assert words(file) == ["shutdown", "atexit"]


@pytest.mark.usefixtures("shared_ray")
def test_A8i_shutdown_does_not_run_for_an_actor_that_never_stood(file, ends):
    @ray.remote(num_cpus=0)
    class Broken:
        def __init__(self, file):
            self.file = file
            file.with_suffix(".pid").write_text(str(os.getpid()))
            raise ValueError("never stood")

        def method(self):
            pass

        def __ray_shutdown__(self):
            self.file.write_text("shutdown")

    actor = Broken.remote(file)
    with pytest.raises(ActorDiedError, match="never stood"):
        ray.get(actor.method.remote())
    ends(int(file.with_suffix(".pid").read_text()))
    assert words(file) == []


@pytest.mark.usefixtures("shared_ray")
def test_A8j_an_exception_in_shutdown_is_ignored(file, ends):
    @ray.remote(num_cpus=0)
    class Raises:
        def __init__(self, file):
            atexit.register(file.write_text, "atexit")

        def pid(self):
            return os.getpid()

        def __ray_shutdown__(self):
            raise ValueError("in shutdown")

    for end in ("scope", "terminate"):
        file.unlink(missing_ok=True)
        actor = Raises.remote(file)
        pid = ray.get(actor.pid.remote())
        if end == "terminate":
            with pytest.raises(RayActorError, match="exit_actor"):
                ray.get(actor.__ray_terminate__.remote())
        del actor
        ends(pid)
        assert words(file) == ["atexit"], end


@pytest.mark.parametrize("end", ["scope", "exit_actor"])
@pytest.mark.usefixtures("no_session")
def test_A8k_an_actor_that_takes_too_long_to_end_is_killed(end, file, ends):
    @ray.remote(num_cpus=0)
    class Slow:
        def __init__(self, file):
            self.file = file
            atexit.register(file.write_text, "atexit")

        def pid(self):
            return os.getpid()

        def leave(self):
            exit_actor()

        def __ray_shutdown__(self):
            self.file.write_text("shutdown")
            time.sleep(600)

    ray.init(num_cpus=1, _system_config={"actor_graceful_shutdown_timeout_ms": 500})
    actor = Slow.remote(file)
    pid = ray.get(actor.pid.remote())
    start = time.monotonic()
    if end == "exit_actor":
        with pytest.raises(ActorDiedError, match="exited by itself"):
            ray.get(actor.leave.remote())
    del actor
    ends(pid, seconds=30)
    assert time.monotonic() - start >= 0.5, "it had no time to end"
    assert words(file) == ["shutdown"]


@ray.remote(num_cpus=0)
class Dropped(Plain.__ray_actor_class__):
    def __del__(self):
        self.say("del")


# `__del__` of an instance never ran.
@pytest.mark.parametrize("how", ["scope", "exit", "terminate"])
def test_the_instance_is_dropped_at_a_graceful_end(how, tmp_path, ends):
    file = tmp_path / "words"
    ray.shutdown()
    ray.init(num_cpus=1)
    actor = Dropped.remote(file)
    pid = ray.get(actor.pid.remote())
    if how == "exit":
        actor.leave.remote()
    elif how == "terminate":
        actor.__ray_terminate__.remote()
    del actor
    ends(pid)
    assert file.read_text() == "shutdown atexit del "
    ray.shutdown()
