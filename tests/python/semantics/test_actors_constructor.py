"""A constructor that fails, and what reaches one that does not."""

import os
import signal
import sys
import time

import numpy as np
import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, RayActorError, RayTaskError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Broken:
    def __init__(self, reason):
        self.reason = reason
        self.deeper()

    def deeper(self):
        raise ValueError(f"cannot stand: {self.reason}")

    def method(self):
        return "answer"


def test_A10a_every_call_raises_an_error_that_says_the_constructor_failed():
    actor = Broken.remote("draught")
    calls = [actor.method.remote() for _ in range(3)]
    for call in [*calls, actor.method.remote()]:
        with pytest.raises(ActorDiedError, match="cannot stand: draught") as raised:
            ray.get(call)
        assert raised.value.actor_init_failed
        assert raised.value.actor_id == actor._actor_id.hex()
    later = actor.method.remote()
    with pytest.raises(ActorDiedError, match="cannot stand: draught") as raised:
        ray.get(later)
    assert raised.value.actor_init_failed


def test_A10a_so_does_a_call_of_another_process():
    @ray.remote(num_cpus=0)
    def call(held):
        try:
            ray.get(held[0].method.remote())
        except RayActorError as error:
            return error.actor_init_failed

    assert ray.get(call.remote([Broken.remote("far")])) is True


def test_A10a_an_actor_that_stood_did_not_fail_in_its_constructor():
    @ray.remote(num_cpus=0)
    class Stands:
        def method(self):
            os._exit(1)

    with pytest.raises(ActorDiedError, match="exit code 1") as raised:
        ray.get(Stands.remote().method.remote())
    assert not raised.value.actor_init_failed


def test_A10b_the_message_holds_the_constructors_traceback():
    with pytest.raises(ActorDiedError, match="error raised in its creation task") as raised:
        ray.get(Broken.remote("frost").method.remote())
    text = str(raised.value)
    assert "an error raised in its creation task" in text
    assert "cannot stand: frost" in text
    assert "in deeper" in text
    assert "Broken.__init__" in text


def test_A10b_a_constructor_of_an_async_actor_fails_alike():
    @ray.remote(num_cpus=0)
    class Async:
        async def __init__(self):
            await self.deeper()

        async def deeper(self):
            raise ValueError("cannot stand")

        async def method(self):
            return "answer"

    with pytest.raises(RayActorError, match="cannot stand") as raised:
        ray.get(Async.remote().method.remote())
    assert raised.value.actor_init_failed
    assert "in deeper" in str(raised.value)


def test_A10b_a_class_that_cannot_be_imported_fails_alike():
    class Hostile:
        def __reduce__(self):
            return exec, ("raise ImportError('no such thing here')",)

    hostile = Hostile()

    @ray.remote(num_cpus=0)
    class Imports:
        captured = hostile

        def method(self):
            return "answer"

    with pytest.raises(RayActorError, match="The actor with name Imports failed to import"):
        ray.get(Imports.remote().method.remote())


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("os._exit(1)", "exit code 1"),
        ("os._exit(0)", "exit code 0"),
        ("SIGKILL", "signal 9"),
        ("sys.exit(3)", "exit code 3"),
    ],
)
def test_A10c_calls_fail_when_the_constructor_ends_the_process(end, text):
    @ray.remote(num_cpus=0)
    class Ends:
        def __init__(self):
            if end == "SIGKILL":
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            eval(end, {"os": os, "sys": sys})

        def method(self):
            return "answer"

    actor = Ends.remote()
    calls = [actor.method.remote() for _ in range(3)]
    for call in [*calls, actor.method.remote()]:
        with pytest.raises(ActorDiedError, match=text):
            ray.get(call, timeout=30)


def test_A10c_restarts_are_used_up_and_then_calls_fail(tmp_path):
    @ray.remote(num_cpus=0, max_restarts=2, max_task_retries=-1)
    class Ends:
        def __init__(self, folder):
            (folder / str(os.getpid())).touch()
            os._exit(1)

        def method(self):
            return "answer"

    with pytest.raises(ActorDiedError, match="exit code 1"):
        ray.get(Ends.remote(tmp_path).method.remote(), timeout=30)
    assert len(list(tmp_path.iterdir())) == 3


def test_A10a_an_argument_that_failed_fails_the_actor():
    @ray.remote(num_cpus=0)
    def fails():
        raise KeyError("no argument")

    @ray.remote(num_cpus=0)
    class Takes:
        def __init__(self, value):
            self.value = value

        def read(self):
            return self.value

    with pytest.raises(RayActorError, match="no argument"):
        ray.get(Takes.remote(fails.remote()).read.remote())


def test_A10a_refs_reach_a_constructor_as_values_and_nested_ones_as_refs():
    @ray.remote(num_cpus=0)
    def make(value):
        time.sleep(0.1)
        return value

    @ray.remote(num_cpus=0)
    class Takes:
        def __init__(self, plain, *, keyword, nested):
            assert isinstance(nested[0], ray.ObjectRef)
            self.values = (plain, keyword, ray.get(nested[0]))

        def read(self):
            return self.values

    large = np.arange(500_000)
    actor = Takes.remote(make.remote(large), keyword=ray.put("keyword"), nested=[make.remote("nested")])
    plain, keyword, nested = ray.get(actor.read.remote())
    assert (plain == large).all()
    assert (keyword, nested) == ("keyword", "nested")


def test_A10a_a_detached_actor_gets_an_argument_that_nobody_else_holds():
    @ray.remote
    def hold_a_cpu():
        time.sleep(0.5)

    @ray.remote(num_cpus=1)
    class Takes:
        def __init__(self, value):
            self.value = value

        def total(self):
            return int(self.value.sum())

    busy = [hold_a_cpu.remote() for _ in range(2)]
    actor = Takes.options(name="a10-detached", lifetime="detached").remote(ray.put(np.ones(300_000)))
    ray.get(busy)
    try:
        assert ray.get(actor.total.remote()) == 300_000
    finally:
        ray.kill(actor)


def test_A10a_an_error_in_a_method_leaves_the_actor_as_it_is():
    @ray.remote(num_cpus=0)
    class Raises:
        def method(self):
            raise ValueError("method")

        def pid(self):
            return os.getpid()

    actor = Raises.remote()
    pid = ray.get(actor.pid.remote())
    with pytest.raises(RayTaskError, match="ValueError: method"):
        ray.get(actor.method.remote())
    assert ray.get(actor.pid.remote()) == pid


# A class that always crashed in its constructor, with restarts for ever, cost two hundred processes a second.
def test_an_actor_that_cannot_be_built_is_started_ever_more_rarely_and_can_be_killed(tmp_path, wait_until):
    @ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    class Ends:
        def __init__(self, folder):
            (folder / str(os.getpid())).touch()
            os._exit(1)

        def method(self):
            return "answer"

    def starts():
        return len(list(tmp_path.iterdir()))

    actor = Ends.remote(tmp_path)
    call = actor.method.remote()
    # It is tried again and again; nobody else has to wait for that.
    wait_until(lambda: starts() >= 4)
    since = time.monotonic()
    assert ray.wait([call], timeout=2)[0] == []
    # From the third failure on each start waits twice as long as the one before, at least a tenth of a second.
    assert starts() <= 5 + (time.monotonic() - since) / 0.1
    ray.kill(actor)
    with pytest.raises(RayActorError, match="ray.kill"):
        ray.get(call, timeout=30)
