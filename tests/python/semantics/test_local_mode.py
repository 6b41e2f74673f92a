"""`init(local_mode=True)`: tasks and actors run in the driver's process."""

import os
import sys

import numpy as np
import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, RayTaskError, WorkerCrashedError


@pytest.fixture(autouse=True)
def local():
    ray.shutdown()
    yield ray.init(num_cpus=2, local_mode=True)
    ray.shutdown()


@ray.remote
def pid():
    return os.getpid()


@ray.remote
def add(left, right=1):
    return left + right


@ray.remote
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, amount=1):
        self.value += amount
        return self.value

    @ray.method(num_returns=2)
    def both(self):
        return self.value, -self.value

    def pid(self):
        return os.getpid()

    def fail(self):
        raise KeyError("no")

    def leave(self):
        ray.actor.exit_actor()

    def me(self):
        context = ray.get_runtime_context()
        return context.get_actor_id(), context.get_actor_name(), context.current_actor, context.get_task_function_name()


def test_X2a_tasks_run_in_the_drivers_process_and_at_once():
    seen = []

    @ray.remote
    def note(value):
        seen.append(value)

    note.remote(1)
    assert seen == [1]
    assert ray.get(pid.remote()) == os.getpid()
    assert ray._private.worker.global_worker.mode == ray.LOCAL_MODE


def test_X2a_refs_are_refs():
    ref = add.remote(add.remote(1), right=add.remote(2))
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == 5
    assert ray.get([add.remote(1), ray.put(7)]) == [2, 7]
    assert ray.wait([ref], timeout=0)[0] == [ref]

    @ray.remote
    def nested():
        return add.remote(1)

    assert ray.get(ray.get(nested.remote())) == 2


def test_X2b_arguments_and_results_are_copies_as_in_workers():
    @ray.remote
    def change(values, array):
        values.append(1)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        return values

    mine, array = [0], np.zeros(3)
    assert ray.get(change.remote(mine, array)) == [0, 1]
    assert mine == [0]


def test_X2c_errors_are_those_of_tasks():
    @ray.remote
    def fail():
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad") as info:
        ray.get(fail.remote())
    assert isinstance(info.value, RayTaskError)
    assert str(info.value).startswith(f"ray::fail() (pid={os.getpid()}")
    with pytest.raises(ValueError, match="At least one of the input arguments"):
        ray.get(add.remote(fail.remote()))
    with pytest.raises(TypeError, match="missing 1 required"):
        add.remote()
    with pytest.raises(WorkerCrashedError, match="ended its process with SystemExit"):
        ray.get(ray.remote(sys.exit).remote(1))


def test_X2c_exceptions_are_retried_where_that_was_asked_for():
    runs = []

    @ray.remote(max_retries=2, retry_exceptions=[KeyError])
    def sometimes(kind):
        runs.append(kind)
        raise kind(len(runs))

    for kind, count in ((KeyError, 3), (ValueError, 1)):
        runs.clear()
        with pytest.raises(kind):
            ray.get(sometimes.remote(kind))
        assert len(runs) == count


def test_X2d_returns_and_generators():
    @ray.remote(num_returns=2)
    def two():
        return 1, 2

    @ray.remote
    def count(limit):
        yield from range(limit)
        raise KeyError("end")

    @ray.remote(num_returns="dynamic")
    def dynamic():
        yield from "ab"

    assert ray.get(two.remote()) == [1, 2]
    assert two.options(num_returns=0).remote() is None
    refs = list(count.remote(3))
    assert ray.get(refs[:3]) == [0, 1, 2]
    assert len(refs) == 4
    with pytest.raises(KeyError):
        ray.get(refs[3])
    assert [ray.get(ref) for ref in ray.get(dynamic.remote())] == ["a", "b"]


def test_X2e_actors_live_in_the_drivers_process():
    counter = Counter.remote(5)
    assert isinstance(counter, ray.actor.ActorHandle)
    assert ray.get([counter.add.remote(), counter.add.remote(amount=2), counter.pid.remote()]) == [6, 8, os.getpid()]
    assert ray.get(counter.both.remote()) == [8, -8]
    with pytest.raises(KeyError):
        ray.get(counter.fail.remote())
    with pytest.raises(TypeError, match="remote"):
        counter.add()
    with pytest.raises(AttributeError, match="nothing"):
        counter.nothing  # noqa: B018

    @ray.remote
    def use(handle):
        return ray.get(handle.add.remote())

    assert ray.get(use.remote(counter)) == 9

    @ray.remote
    def call(method):
        return ray.get(method.remote(amount=0))

    assert ray.get(call.remote(counter.add)) == 9
    assert ray.get(counter.add._remote(args=(0,), num_returns=None)) == 9
    assert ray.get(ray.get(ray.put([counter]))[0].add.remote()) == 10


def test_X2e_names_and_ends_of_actors():
    counter = Counter.options(name="counter").remote()
    assert ray.get(ray.get_actor("counter").add.remote()) == 1
    assert ray.util.list_named_actors() == ["counter"]
    with pytest.raises(ValueError, match="already taken"):
        Counter.options(name="counter").remote()
    again = Counter.options(name="counter", get_if_exists=True).remote()
    assert ray.get(again.add.remote()) == 2
    ray.kill(counter)
    with pytest.raises(ActorDiedError, match=r"ray\.kill"):
        ray.get(counter.add.remote())
    with pytest.raises(ValueError, match="Failed to look up"):
        ray.get_actor("counter")
    leaver = Counter.remote()
    with pytest.raises(ActorDiedError, match="exit_actor"):
        ray.get(leaver.leave.remote())
    with pytest.raises(ActorDiedError, match="exit_actor"):
        ray.get(leaver.add.remote())

    @ray.remote
    class Broken:
        def __init__(self):
            raise ValueError("at birth")

        def method(self):
            pass

    with pytest.raises(ActorDiedError, match="at birth"):
        ray.get(Broken.remote().method.remote())


def test_X2f_coroutines_run_to_their_end():
    import asyncio

    @ray.remote
    class Slow:
        async def __init__(self):
            self.loop = asyncio.get_running_loop()

        async def double(self, value):
            await asyncio.sleep(0)
            assert asyncio.get_running_loop() is self.loop
            return 2 * value

        async def items(self):
            yield 1
            yield 2

        def plain(self):
            return asyncio.get_running_loop() is self.loop

    slow = Slow.remote()
    assert ray.get([slow.double.remote(2), slow.plain.remote()]) == [4, True]
    assert [ray.get(ref) for ref in slow.items.remote()] == [1, 2]


def test_X2g_the_context_is_that_of_the_call():
    @ray.remote
    def who():
        context = ray.get_runtime_context()
        return context.get_task_id(), context.get_task_name(), context.get_task_function_name(), os.environ.get("LOCAL")

    task_id, name, function, env = ray.get(who.options(name="me", runtime_env={"env_vars": {"LOCAL": "yes"}}).remote())
    assert len(task_id) == 48
    assert (name, env) == ("me", "yes")
    assert function.endswith(".who")
    assert "LOCAL" not in os.environ
    assert ray.get_runtime_context().get_task_id() is None
    counter = Counter.options(name="named").remote()
    actor_id, actor_name, handle, function = ray.get(counter.me.remote())
    assert (actor_id, actor_name) == (counter._ray_actor_id.hex(), "named")
    assert function.endswith(".Counter.me")
    assert ray.get(handle.add.remote()) == 1


def test_X2h_the_next_session_is_an_ordinary_one():
    assert ray.get(pid.remote()) == os.getpid()
    ray.shutdown()
    ray.init(num_cpus=1)
    assert ray.get(pid.remote()) != os.getpid()
    assert ray.get(Counter.remote().pid.remote()) != os.getpid()
