"""Generators: what `.remote()` gives (G1), how they end (G2), and what `num_returns` makes of them (G3)."""

import asyncio
import functools
import os
import pickle
import threading
import time

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, RayTaskError, WorkerCrashedError

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote
def count(number):
    yield from range(number)


@ray.remote
def count_by_signs(signs, number):
    """Yields each value only when it is told to."""
    for index in range(number):
        signs.wait(f"go-{index}")
        yield index


@ray.remote(max_retries=0)
def fail_after(number, error):
    yield from range(number)
    raise error


def values(generator):
    return [ray.get(ref, timeout=30) for ref in generator]


class Plain:
    """Yields by plain methods."""

    def count(self, number):
        yield from range(number)

    def by_signs(self, signs, number):
        for index in range(number):
            signs.wait(f"go-{index}")
            yield index

    def fail_after(self, number, error):
        yield from range(number)
        raise error

    def die_after(self, number):
        yield from range(number)
        os._exit(1)

    def pid(self):
        return os.getpid()


class Async:
    """Yields by asynchronous methods, beside a plain one."""

    def __init__(self):
        self.gate = asyncio.Event()

    async def count(self, number):
        for index in range(number):
            yield index

    async def wait_then_count(self, number):
        for index in range(number):
            await self.gate.wait()
            yield index

    async def fail_after(self, number, error):
        for index in range(number):
            yield index
        raise error

    async def open_gate(self):
        self.gate.set()

    def plain(self, number):
        yield from range(number)


@pytest.fixture(params=["plain", "threaded", "async"])
def actor(request):
    if request.param == "async":
        return ray.remote(Async).remote()
    return ray.remote(Plain).options(max_concurrency=4 if request.param == "threaded" else 1).remote()


def test_G1a_a_generator_function_returns_before_its_first_value(signs):
    generator = count_by_signs.remote(signs, 1)
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert not generator.next_ready()
    signs.set("go-0")
    assert values(generator) == [0]


def test_G1a_also_where_streaming_is_asked_for():
    assert values(count.options(num_returns="streaming").remote(2)) == [0, 1]


def test_G1b_methods_of_actors_stream(actor):
    generator = actor.count.remote(4)
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert values(generator) == [0, 1, 2, 3]
    assert values(actor.count.options(num_returns="streaming").remote(2)) == [0, 1]


def test_G1b_a_plain_generator_of_an_async_actor_streams():
    assert values(ray.remote(Async).remote().plain.remote(300)) == list(range(300))


def test_G1b_an_actor_reads_what_it_yields_itself():
    @ray.remote(max_concurrency=3)
    class Itself:
        def count(self, number):
            for index in range(number):
                yield bytes([index]) * (200_000 if index % 2 else 10)

        def read(self, **options):
            me = ray.get_runtime_context().current_actor
            made = me.count.options(**options).remote(20)
            refs = ray.get(made, timeout=30) if options.get("num_returns") == "dynamic" else made
            return [ray.get(ref, timeout=30)[0] for ref in refs]

    actor = Itself.remote()
    for options in ({}, {"_generator_backpressure_num_objects": 1}, {"num_returns": "dynamic"}):
        assert ray.get(actor.read.remote(**options), timeout=50) == list(range(20))


def test_G1c_values_are_there_as_they_are_yielded(signs):
    generator = count_by_signs.remote(signs, 3)
    for index in range(3):
        signs.set(f"go-{index}")
        assert ray.get(next(generator), timeout=30) == index
    assert list(generator) == []


def test_G1c_values_of_a_method_are_there_as_they_are_yielded(signs):
    actor = ray.remote(Plain).remote()
    generator = actor.by_signs.remote(signs, 3)
    for index in range(3):
        signs.set(f"go-{index}")
        assert ray.get(next(generator), timeout=30) == index


def test_G1d_for_and_next_read_it():
    generator = count.remote(3)
    assert iter(generator) is generator
    first = next(generator)
    assert isinstance(first, ray.ObjectRef)
    assert ray.get(first) == 0
    assert [ray.get(ref) for ref in generator] == [1, 2]
    with pytest.raises(StopIteration):
        next(generator)


def test_G1d_several_threads_may_read_it():
    generator, seen, lock = count.remote(2_000), [], threading.Lock()

    def read():
        for ref in generator:
            value = ray.get(ref)
            with lock:
                seen.append(value)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(seen) == list(range(2_000))


def test_G1d_many_values_come_in_order():
    assert values(count.remote(20_000)) == list(range(20_000))


def test_G1d_values_of_all_sizes_come_in_order():
    sizes = [0, 1, 10_000, 50_000, 99_000, 150_000, 2_000_000, 3]

    @ray.remote
    def blocks():
        for size in sizes:
            yield bytes([size % 251]) * size

    for size, ref in zip(sizes, blocks.remote(), strict=True):
        assert ray.get(ref) == bytes([size % 251]) * size


def test_G1e_async_for_and_anext_read_it(signs):
    generator = count_by_signs.remote(signs, 4)

    async def read():
        signs.set("go-0")
        first = await anext(generator)
        waiting = asyncio.ensure_future(anext(generator))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        for index in range(1, 4):
            signs.set(f"go-{index}")
        rest = [await waiting] + [ref async for ref in generator]
        with pytest.raises(StopAsyncIteration):
            await anext(generator)
        return [await ref for ref in [first, *rest]]

    assert asyncio.run(read()) == [0, 1, 2, 3]


def test_G1e_an_actor_reads_on_its_own_loop():
    @ray.remote
    class Reader:
        async def read(self, number):
            return [await ref async for ref in count.remote(number)]

    assert ray.get(Reader.remote().read.remote(500), timeout=30) == list(range(500))


def test_G1e_a_failing_generator_is_read_without_raising():
    async def read():
        refs = [ref async for ref in fail_after.remote(1, ValueError("late"))]
        assert await refs[0] == 0
        with pytest.raises(ValueError, match="late"):
            await refs[1]
        return len(refs)

    assert asyncio.run(read()) == 2


def test_G1f_it_cannot_be_pickled_put_or_passed_on():
    generator = count.remote(1)
    text = "cannot return or pass a generator"
    with pytest.raises(TypeError, match=text):
        pickle.dumps(generator)
    with pytest.raises(TypeError, match=text):
        ray.put(generator)
    with pytest.raises(TypeError, match=text):
        count.remote(generator)
    with pytest.raises(TypeError, match=text):
        count.remote([generator])
    assert values(generator) == [0]


def test_G1f_it_cannot_be_returned():
    @ray.remote
    def returns():
        return count.remote(1)

    with pytest.raises(TypeError, match="cannot return or pass a generator"):
        ray.get(returns.remote(), timeout=30)


def test_G1g_an_async_generator_runs_beside_other_calls():
    actor = ray.remote(Async).remote()
    generator = actor.wait_then_count.remote(3)
    assert not ray.wait([generator], timeout=0.05)[0]
    ray.get(actor.open_gate.remote(), timeout=30)
    assert values(generator) == [0, 1, 2]


def test_O1e_get_of_a_generator_is_that_generator():
    generator = count.remote(1)
    assert ray.get(generator) is generator
    assert values(generator) == [0]
    with pytest.raises(TypeError, match="which is not an ray.ObjectRef"):
        ray.get([generator])


def test_G2a_an_exception_is_one_more_ref_and_then_the_end():
    generator = fail_after.remote(2, ValueError("boom"))
    assert [ray.get(next(generator)), ray.get(next(generator))] == [0, 1]
    failing = next(generator)
    for _ in range(2):
        with pytest.raises(ValueError, match="boom"):
            ray.get(failing)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(generator)


def test_G2a_an_exception_of_a_method_too(actor):
    refs = list(actor.fail_after.remote(1, ValueError("boom")))
    assert len(refs) == 2
    assert ray.get(refs[0]) == 0
    with pytest.raises(ValueError, match="boom"):
        ray.get(refs[1])


def test_G2a_a_function_that_fails_before_it_yields():
    @ray.remote
    def unpicklable_argument(value):
        yield value

    @ray.remote
    def fails():
        raise KeyError("argument")

    (failing,) = list(unpicklable_argument.remote(fails.remote()))
    with pytest.raises(KeyError):
        ray.get(failing)


def test_G2a_a_value_that_cannot_be_pickled_is_the_generator_s_error():
    @ray.remote(max_retries=0)
    def locks():
        yield 1
        yield threading.Lock()

    first, failing = list(locks.remote())
    assert ray.get(first) == 1
    with pytest.raises(TypeError, match="lock"):
        ray.get(failing)


def test_G2b_it_is_a_task_error_and_the_exception_s_own_type():
    *_, failing = fail_after.remote(1, KeyError("both"))
    with pytest.raises(KeyError) as info:
        ray.get(failing)
    assert isinstance(info.value, RayTaskError)


def test_G2c_a_yielded_exception_is_a_value():
    @ray.remote
    def exceptions():
        yield ValueError("a value")
        yield 2

    first, second = values(exceptions.remote())
    assert isinstance(first, ValueError)
    assert second == 2


def test_G2d_return_ends_it():
    @ray.remote
    def returns():
        yield 1
        return 5
        yield 2

    assert values(returns.remote()) == [1]


def test_G2e_one_without_values_is_empty(actor):
    assert list(count.remote(0)) == []
    assert list(actor.count.remote(0)) == []


def test_G2f_a_crash_of_the_worker_is_one_more_ref():
    @ray.remote(max_retries=0)
    def dies():
        yield 1
        os._exit(1)

    generator = dies.remote()
    assert ray.get(next(generator)) == 1
    failing = next(generator)
    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(failing)
    assert list(generator) == []


def test_G2g_an_actor_s_death_is_one_more_ref():
    generator = ray.remote(Plain).remote().die_after.remote(2)
    refs = list(generator)
    assert [ray.get(ref) for ref in refs[:2]] == [0, 1]
    with pytest.raises(ActorDiedError, match="exit code 1"):
        ray.get(refs[2])
    assert len(refs) == 3


def test_G3a_a_number_of_returns_takes_the_first_values():
    assert ray.get(count.options(num_returns=3).remote(3)) == [0, 1, 2]
    assert ray.get(count.options(num_returns=2).remote(100)) == [0, 1]
    assert ray.get(count.options(num_returns=1).remote(1)) == 0


def test_G3a_of_methods_too(actor):
    assert ray.get(actor.count.options(num_returns=2).remote(5)) == [0, 1]


def test_G3b_missing_values_raise_in_their_refs():
    refs = count.options(num_returns=4).remote(2)
    assert ray.get(refs[:2]) == [0, 1]
    for ref in refs[2:]:
        with pytest.raises(ValueError, match="Task returned 2 objects, but num_returns=4"):
            ray.get(ref)


def test_G3b_of_methods_too(actor):
    refs = actor.count.options(num_returns=2).remote(1)
    assert ray.get(refs[0]) == 0
    with pytest.raises(ValueError, match="Task returned 1 objects, but num_returns=2"):
        ray.get(refs[1])


def test_G3c_values_before_an_exception_stay_good(actor):
    for refs in (
        fail_after.options(num_returns=3).remote(2, OSError("late")),
        actor.fail_after.options(num_returns=3).remote(2, OSError("late")),
    ):
        assert ray.get(refs[:2]) == [0, 1]
        with pytest.raises(OSError, match="late"):
            ray.get(refs[2])


def test_G3d_dynamic_gives_a_ref_to_refs(actor):
    for ref in (count.options(num_returns="dynamic").remote(3), actor.count.options(num_returns="dynamic").remote(3)):
        assert isinstance(ref, ray.ObjectRef)
        refs = ray.get(ref, timeout=30)
        assert len(refs) == 3
        assert [ray.get(item) for item in refs] == [0, 1, 2]
        assert [ray.get(item) for item in ray.get(ref)] == [0, 1, 2]


def test_G3e_dynamic_refs_can_be_passed_to_tasks():
    @ray.remote
    def total(refs):
        return sum(ray.get(ref) for ref in refs)

    ref = count.options(num_returns="dynamic").remote(5)
    assert ray.get(total.remote(ref), timeout=30) == 10
    assert ray.get(total.remote(ray.get(ref)), timeout=30) == 10


def test_G3f_an_exception_is_the_last_of_the_dynamic_refs(actor):
    for ref in (
        fail_after.options(num_returns="dynamic").remote(2, OSError("late")),
        actor.fail_after.options(num_returns="dynamic").remote(2, OSError("late")),
    ):
        refs = list(ray.get(ref, timeout=30))
        assert ray.get(refs[:2]) == [0, 1]
        assert len(refs) == 3
        with pytest.raises(OSError, match="late"):
            ray.get(refs[2])


@pytest.mark.parametrize("kind", ["streaming", "dynamic"])
def test_G3g_plain_functions_do_not_yield(kind):
    text = f"num_returns='{kind}' needs a generator, but"

    def first(made):
        return ray.get(next(iter(made if kind == "streaming" else ray.get(made, timeout=30))), timeout=30)

    with pytest.raises(ValueError, match=text):
        first(ray.remote(num_returns=kind)(lambda: 1).remote())
    with pytest.raises(ValueError, match=text):
        first(ray.remote(lambda: 1).options(num_returns=kind).remote())
    with pytest.raises(ValueError, match=text):
        first(ray.remote(Plain).remote().pid.options(num_returns=kind).remote())


@pytest.mark.parametrize("kind", ["streaming", "dynamic"])
def test_G3h_functions_that_return_a_generator_yield(kind):
    """Decorated generators were refused: `inspect` does not take them for generator functions."""

    def traced(function):
        @functools.wraps(function)
        def called(*args):
            return function(*args)

        return called

    @traced
    def numbers(count):
        yield from range(count)

    class Counting:
        @traced
        def numbers(self, count):
            yield from range(count)

    for made in (
        ray.remote(num_returns=kind)(numbers).remote(3),
        ray.remote(numbers).options(num_returns=kind).remote(3),
        ray.remote(Counting).remote().numbers.options(num_returns=kind).remote(3),
    ):
        refs = made if kind == "streaming" else ray.get(made, timeout=30)
        assert [ray.get(ref, timeout=30) for ref in refs] == [0, 1, 2]


def test_T11e_the_title_stays_while_a_generator_runs():
    def title(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[0].decode()

    @ray.remote
    def titled():
        for _ in range(3):
            yield os.getpid(), title(os.getpid())

    seen = []
    for ref in titled.options(name="a name").remote():
        pid, at_yield = ray.get(ref)
        seen.append(at_yield)
        time.sleep(0.01)
    assert seen == ["ray::a name"] * 3
    assert pid != os.getpid()
