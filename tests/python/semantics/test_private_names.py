"""Names that are not public and that libraries use all the same."""

import asyncio
import inspect
import pickle
import subprocess
import sys

import pytest

import eagleray as ray
from eagleray.exceptions import RayTaskError

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote(num_cpus=0)
class Actor:
    def __init__(self, start=0):
        self.total = start

    def add(self, number, *, times=1):
        self.total += number * times
        return self.total

    def two(self):
        return 1, 2

    def count(self, number):
        yield from range(number)


@ray.remote(num_cpus=0)
def call(method, number):
    return ray.get(method.remote(number))


@ray.remote(num_cpus=0)
def call_inside(holder, number):
    return ray.get(holder["method"].remote(number))


class TestBoundMethods:
    def test_A5f_a_method_of_an_actor_may_be_passed_to_a_task(self):
        actor = Actor.remote()
        assert ray.get(call.remote(actor.add, 3)) == 3
        assert ray.get(call_inside.remote({"method": actor.add}, 4)) == 7
        assert ray.get(ray.get(ray.put([actor.add]))[0].remote(1)) == 8

    def test_A5f_it_keeps_the_actor_alive(self):
        kept = ray.put(Actor.remote().add)
        assert ray.get(ray.get(kept).remote(5)) == 5

    def test_A5f_it_can_be_pickled(self):
        actor = Actor.remote()
        assert ray.get(pickle.loads(pickle.dumps(actor.add)).remote(2)) == 2

    def test_A5f_with_the_options_that_it_was_given(self):
        actor = Actor.remote()
        two = pickle.loads(pickle.dumps(actor.two.options(num_returns=2, name="both")))
        assert ray.get(two.remote()) == [1, 2]
        assert two._name == "two"
        count = pickle.loads(pickle.dumps(actor.count.options(_generator_backpressure_num_objects=3)))
        assert count._generator == (True, 3)
        assert [ray.get(ref) for ref in count.remote(5)] == list(range(5))


class TestRemote:
    def test_T1f_a_function_is_called_by_remote_with_an_underscore(self):
        @ray.remote
        def f(a, b=0, *rest):
            return a, b, rest

        assert ray.get(f._remote(args=[1], kwargs={"b": 2})) == (1, 2, ())
        assert ray.get(f._remote((1, 2, 3), num_cpus=0.5, name=None)) == (1, 2, (3,))
        assert ray.get(f._remote([1, 2], num_returns=3)) == [1, 2, ()]
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            f._remote()

    def test_T1f_so_are_a_class_and_a_method(self):
        actor = Actor._remote(args=(10,), name="underscored", num_cpus=0)
        assert ray.get_actor("underscored") == actor
        assert ray.get(actor.add._remote((5,), {"times": 2})) == 20
        assert ray.get(actor.two._remote(num_returns=2, name="", max_task_retries=None)) == [1, 2]
        assert ray.get(Actor._remote().add._remote(args=[1])) == 1


class TestReadingSeveral:
    def test_G5g_the_next_refs_may_be_looked_at_before_they_are_taken(self):
        generator = Actor.remote().count.remote(5)
        assert ray.get(generator._get_next_ref_n(3)) == [0, 1, 2]
        assert ray.get(generator._get_next_ref_n(2)) == [0, 1]
        generator._consume_next_ref_n(2)
        assert ray.get(next(generator)) == 2
        assert ray.get(generator._get_next_ref_n(9)) == [3, 4], "there are no more"
        assert not generator._stream_exhausted()
        generator._consume_next_ref_n(9)
        assert generator._stream_exhausted()
        assert generator._get_next_ref_n(1) == []
        with pytest.raises(StopIteration):
            next(generator)

    def test_G5g_what_is_not_there_cannot_be_taken(self, signs):
        @ray.remote(num_cpus=0)
        def slow():
            yield 1
            signs.wait("go")
            yield 2

        generator = slow.remote()
        generator._get_next_ref_n(1)
        with pytest.raises(ValueError, match="not there yet"):
            generator._consume_next_ref_n(2)
        signs.set("go")
        assert ray.get(next(generator)) == 2
        for count in (0, -1):
            with pytest.raises(ValueError, match="num_refs must be positive"):
                generator._get_next_ref_n(count)

    def test_G5h_an_event_loop_may_wait_for_the_next_one_for_some_time(self, signs):
        @ray.remote(num_cpus=0)
        def slow():
            yield 1
            signs.wait("go")
            yield 2

        async def read():
            generator = slow.remote()
            assert await (await generator._next_async()) == 1
            assert (await generator._next_async(timeout_s=0.05)).is_nil()
            signs.set("go")
            assert await (await generator._next_async(timeout_s=-1)) == 2
            with pytest.raises(StopAsyncIteration):
                await generator._next_async(timeout_s=30)

        asyncio.run(read())


def _read(generator):
    values = []
    for ref in generator:
        try:
            values.append(ray.get(ref))
        except RayTaskError as error:
            values.append(str(error.cause))
    return values


class TestSeveralValuesPerYield:
    def test_G1h_each_value_of_a_yield_is_an_object_of_its_own(self):
        @ray.remote(num_cpus=0, _num_objects_per_yield=2)
        def pairs(number):
            for index in range(number):
                yield (index, str(index)) if index % 2 else [index, str(index)]

        assert _read(pairs.remote(3)) == [0, "0", 1, "1", 2, "2"]
        assert _read(pairs.options(name="pairs", _num_objects_per_yield=2).remote(1)) == [0, "0"]

    def test_G1h_also_of_methods(self):
        @ray.remote(num_cpus=0)
        class Pairs:
            @ray.method(_num_objects_per_yield=2)
            def plain(self):
                yield 1, 2
                yield 3, 4

            @ray.method(_num_objects_per_yield=3)
            async def coroutine(self):
                yield 5, 6, 7

        actor = Pairs.remote()
        assert _read(actor.plain.remote()) == [1, 2, 3, 4]
        assert _read(actor.coroutine.remote()) == [5, 6, 7]
        with pytest.raises(ValueError, match="cannot be overridden per actor method call"):
            actor.plain.options(_num_objects_per_yield=3)

    def test_G1h_a_yield_of_another_size_is_an_error(self):
        @ray.remote(num_cpus=0, _num_objects_per_yield=2)
        def wrong(second):
            yield 1, 2
            yield second

        short = "Streaming generator task yielded 1 objects, but _num_objects_per_yield=2."
        assert _read(wrong.remote((3,))) == [1, 2, short]
        assert "must yield a tuple or list of length 2" in _read(wrong.remote(3))[2]
        with pytest.raises(ValueError, match="cannot be overridden per task call"):
            wrong.options(_num_objects_per_yield=3)


@pytest.mark.parametrize("kind", ["threads", "coroutines"])
def test_G6i_all_generators_of_an_actor_together_may_be_bounded(kind, signs, wait_until):
    @ray.remote(num_cpus=0, max_concurrency=3, _actor_generator_backpressure_num_objects=4)
    class Threads:
        def count(self, name):
            for index in range(100):
                signs.set(name)
                yield index

    @ray.remote(num_cpus=0, _actor_generator_backpressure_num_objects=4)
    class Coroutines:
        async def count(self, name):
            for index in range(100):
                signs.set(name)
                yield index

    actor = (Threads if kind == "threads" else Coroutines).remote()
    first = actor.count.remote("first")
    wait_until(lambda: signs.count("first") >= 4, what="the bound")
    second = actor.count.options(_generator_backpressure_num_objects=-1).remote("second")
    wait_until(lambda: signs.count("second") >= 1, what="the second's first value")
    # The first has used all up: the second has sent the value that it had, and waits.
    assert not ray.wait([first.completed(), second.completed()], timeout=0.3)[0]
    assert (signs.count("first"), signs.count("second")) == (4, 1)
    assert [ray.get(ref) for ref in first] == list(range(100))
    assert [ray.get(ref) for ref in second] == list(range(100))


class TestWhatLibrariesAskOfActors:
    def test_of_classes(self):
        metadata = Actor.__ray_metadata__
        assert metadata.modified_class is Actor.__ray_actor_class__
        assert metadata.class_name == metadata.modified_class.__name__ == "Actor"
        assert metadata.num_cpus == 0

    def test_of_methods(self):
        @ray.remote(num_cpus=0)
        class Documented:
            def method(self, a, b: int = 2, *, c=None):
                """Says what it does."""

            @staticmethod
            def plain(x):
                pass

        actor = Documented.remote()
        assert str(inspect.signature(actor.method)) == "(a, b: int = 2, *, c=None)"
        assert str(inspect.signature(actor.plain)) == "(x)"
        assert actor.method.__doc__ == "Says what it does."
        assert actor.method._method_name == "method"
        names = {name: [each.name for each in given] for name, given in actor._ray_method_signatures.items()}
        assert names == {"method": ["a", "b", "c"], "plain": ["x"]}

    def test_of_refs(self):
        ref = ray.put(1)
        for ask in (ref.owner_address, ref.call_site):
            with pytest.raises(NotImplementedError, match="ref"):
                ask()


@pytest.mark.one_node("compares the node of a task with its own")
def test_private_modules_have_what_libraries_import():
    from eagleray._private import auto_init_hook, client_mode_hook, signature, state, test_utils, utils, worker
    from eagleray.air.constants import TRAINING_ITERATION
    from eagleray.runtime_env.runtime_env import RuntimeEnv

    assert RuntimeEnv is ray.runtime_env.RuntimeEnv
    assert TRAINING_ITERATION == "training_iteration"
    assert utils.hex_to_binary(utils.binary_to_hex(b"\x01\xff")) == b"\x01\xff"
    (node,) = state.state.node_table()
    assert state.available_resources_per_node()[node["NodeID"]]["CPU"] <= 2
    assert state.state.total_resources_per_node()[node["NodeID"]]["CPU"] == 2
    assert worker._global_node.unique_id == worker.global_worker.node.unique_id == node["NodeID"]
    with pytest.raises(NotImplementedError, match="get_runtime_context"):
        print(worker.global_worker.core_worker)
    assert auto_init_hook.wrap_auto_init(ray.put)(1)
    assert client_mode_hook.client_mode_hook(len) is len
    assert not client_mode_hook.client_mode_should_convert()
    assert [each.name for each in signature.extract_signature(lambda self, a: a, ignore_first=True)] == ["a"]
    test_utils.wait_for_condition(lambda: True)
    with pytest.raises(RuntimeError, match="wasn't met"):
        test_utils.wait_for_condition(lambda: False, timeout=0.2)
    signal = test_utils.SignalActor.remote()
    waits = signal.wait.remote()
    ray.get(signal.send.remote())
    ray.get(waits)
    assert "eagleray" in ray.__commit__


@pytest.mark.parametrize("command", ["job", "list", "timeline", "summary"])
def test_commands_that_are_missing_say_what_to_do(command):
    ran = subprocess.run(
        [sys.executable, "-m", "eagleray", command, "--address", "x"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert f"there is no `{command}` in this version; " in ran.stderr
