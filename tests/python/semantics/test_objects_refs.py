"""ObjectRef itself: its bytes, its futures, its counts."""

import asyncio
import concurrent.futures
import copy
import queue
import threading
import time

import pytest

import eagleray as ray
from eagleray._values import awaiting

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def give(value):
    return value


@ray.remote(num_cpus=0)
def held(gate, value=None):
    while not gate.exists():
        time.sleep(0.01)
    return value


@ray.remote
def fail():
    raise ValueError("failed")


@pytest.fixture
def gate(tmp_path):
    """Tasks that wait for this file end at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()


class TestBytes:
    @pytest.mark.parametrize("length", [0, 1, 20, 27, 29, 56])
    def test_O9a_another_length_than_28_raises(self, length):
        with pytest.raises(ValueError, match="needs to have length"):
            ray.ObjectRef(b"x" * length)
        with pytest.raises(ValueError, match="needs to have length"):
            ray.ObjectRef.from_binary(b"x" * length)
        with pytest.raises(ValueError, match="needs to have length"):
            ray.ObjectRef.from_hex("ab" * length)

    def test_O9a_28_bytes_make_a_ref(self):
        ref = ray.ObjectRef(bytes(range(28)))
        assert ref.binary() == bytes(range(28))
        assert len(ref.binary()) == ray.ObjectRef.size() == 28
        with pytest.raises(TypeError, match="'str' object"):
            ray.ObjectRef("x" * 28)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'id'"):
            ray.ObjectRef()

    def test_O9b_the_ways_to_make_and_show_an_id(self):
        nil = ray.ObjectRef.nil()
        assert nil.is_nil()
        assert nil.binary() == b"\xff" * 28
        one, other = ray.ObjectRef.from_random(), ray.ObjectRef.from_random()
        assert one != other
        assert not one.is_nil()
        assert one.hex() == one.binary().hex()
        assert ray.ObjectRef.from_hex(one.hex()) == ray.ObjectRef.from_binary(one.binary()) == one
        assert repr(one) == f"ObjectRef({one.hex()})"
        assert ray.ObjectID is ray.ObjectRef

    def test_O9b_a_ref_knows_its_task_and_job(self):
        @ray.remote(num_returns=2)
        def ids():
            context = ray.get_runtime_context()
            return context.get_task_id(), context.get_job_id()

        refs = ids.remote()
        task, job = ray.get(refs)
        assert [ref.task_id().hex() for ref in refs] == [task, task]
        assert [ref.job_id().hex() for ref in refs] == [job, job]
        assert isinstance(refs[0].task_id(), ray.TaskID)
        assert isinstance(refs[0].job_id(), ray.JobID)
        assert job == ray.get_runtime_context().get_job_id()
        assert refs[0] != refs[1]

    def test_O9c_equal_ids_are_equal_and_hash_alike(self):
        ref, other = ray.put(1), ray.put(1)
        same = ray.ObjectRef(ref.binary())
        assert ref == same
        assert hash(ref) == hash(same)
        assert ref != other
        assert {ref: "a", other: "b"}[same] == "a"
        assert len({ref, same, other}) == 2
        assert ref != ref.binary()
        assert ref != "text"
        assert sorted([ref, other]) == sorted([other, ref])

    def test_O9c_a_ref_is_the_same_in_another_process(self):
        @ray.remote
        def back(refs):
            return refs[0].binary(), hash(refs[0]), refs[0] == refs[1], refs

        ref = ray.put(1)
        binary, hashed, is_equal, refs = ray.get(back.remote([ref, ref]))
        assert (binary, hashed, is_equal) == (ref.binary(), hash(ref), True)
        assert refs == [ref, ref]


class TestAsyncio:
    async def test_O9d_a_ref_may_be_awaited_many_times(self, gate):
        ref = held.remote(gate, "value")
        waiting = [asyncio.ensure_future(ref) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in waiting)
        gate.touch()
        assert [await one for one in waiting] == ["value"] * 5
        assert [await ref for _ in range(5)] == ["value"] * 5

    async def test_O9d_awaiting_raises_the_tasks_error_each_time(self):
        ref = fail.remote()
        for _ in range(3):
            with pytest.raises(ValueError, match="failed"):
                await ref

    async def test_O9e_refs_work_in_asyncios_functions(self, gate):
        assert await asyncio.gather(give.remote(1), ray.put(2), give.remote(3)) == [1, 2, 3]
        results = await asyncio.gather(give.remote(1), fail.remote(), return_exceptions=True)
        assert results[0] == 1
        assert isinstance(results[1], ValueError)
        hanging = asyncio.ensure_future(held.remote(gate, "held"))
        done = asyncio.ensure_future(give.remote("done"))
        ready, rest = await asyncio.wait([hanging, done], return_when=asyncio.FIRST_COMPLETED)
        assert (ready, rest) == ({done}, {hanging})
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(hanging), 0.05)
        gate.touch()
        assert await asyncio.wait_for(hanging, 30) == "held"
        for finished in asyncio.as_completed([give.remote(index) for index in range(5)]):
            assert await finished in range(5)

    async def test_O9e_thousands_of_refs_may_be_awaited_at_once(self):
        refs = [give.remote(index) for index in range(2_000)]
        assert await asyncio.gather(*refs) == list(range(2_000))

    async def test_O9f_a_cancelled_future_leaves_the_ref_good(self, gate):
        ref = held.remote(gate, "value")
        future = asyncio.ensure_future(ref)
        other = asyncio.ensure_future(ref)
        await asyncio.sleep(0.05)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref, 0.05)
        gate.touch()
        assert await other == "value"
        assert await ref == "value"
        assert ray.get(ref) == "value"

    async def test_O9i_the_loop_runs_on_while_a_ref_is_awaited(self, gate):
        ticks = 0

        async def tick():
            nonlocal ticks
            while ticks < 10:
                ticks += 1
                await asyncio.sleep(0.001)
            gate.touch()

        ticking = asyncio.ensure_future(tick())
        assert await held.remote(gate, "value") == "value"
        await ticking
        assert ticks == 10

    def test_O9i_several_loops_in_several_threads_may_await_one_ref(self, gate):
        ref = held.remote(gate, "value")
        results = []

        async def read():
            return await ref, await give.remote("more")

        def run():
            results.append(asyncio.run(read()))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert results == []
        gate.touch()
        for thread in threads:
            thread.join()
        assert results == [("value", "more")] * 4

    def test_O9i_one_loop_after_another_may_await_one_ref(self, gate):
        ref = held.remote(gate, "value")

        async def hang():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(ref, 0.05)

        async def read():
            return await ref

        asyncio.run(hang())
        asyncio.run(hang())
        gate.touch()
        assert [asyncio.run(read()) for _ in range(3)] == ["value"] * 3

    def test_O9i_refs_may_be_awaited_inside_a_task(self):
        @ray.remote
        def outer():
            async def read():
                return await asyncio.gather(give.remote(1), give.remote(2))

            return asyncio.run(read())

        assert ray.get(outer.remote()) == [1, 2]


class TestCallbacks:
    def test_O9j_a_callback_gets_the_value_when_it_is_there(self, gate):
        results = queue.SimpleQueue()
        ref = held.remote(gate, "value")
        ref._on_completed(results.put)
        assert results.empty()
        gate.touch()
        assert results.get(timeout=30) == "value"
        ref._on_completed(results.put)
        assert results.get_nowait() == "value", "what is there is given at once"

    def test_O9j_or_the_error(self):
        results = queue.SimpleQueue()
        fail.remote()._on_completed(results.put)
        error = results.get(timeout=30)
        assert isinstance(error, ValueError)
        assert isinstance(error, ray.exceptions.RayTaskError)

    def test_O9j_a_callback_that_fails_harms_no_other(self, gate, caplog):
        results = queue.SimpleQueue()
        ref = held.remote(gate, "value")
        ref._on_completed(lambda _: 1 / 0)
        ref._on_completed(results.put)
        gate.touch()
        assert results.get(timeout=30) == "value"
        assert "ZeroDivisionError" in caplog.text


class TestFutures:
    def test_O9g_future_is_a_concurrent_future(self, gate):
        ref = held.remote(gate, "value")
        future = ref.future()
        assert isinstance(future, concurrent.futures.Future)
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(timeout=0.05)
        called = threading.Event()
        future.add_done_callback(lambda _: called.set())
        gate.touch()
        assert future.result(30) == "value"
        assert called.wait(30)
        assert ref.future().result(0) == "value"

    def test_O9g_a_future_holds_the_error(self):
        future = fail.remote().future()
        with pytest.raises(ValueError, match="failed"):
            future.result(30)
        assert isinstance(future.exception(), ray.exceptions.RayTaskError)

    def test_O9g_futures_of_many_refs_come_as_they_are_ready(self, gate):
        hanging = held.remote(gate).future()
        quick = [give.remote(index).future() for index in range(50)]
        assert [future.result(30) for future in quick] == list(range(50))
        assert not hanging.done()
        done, rest = concurrent.futures.wait([hanging, *quick], return_when=concurrent.futures.FIRST_COMPLETED)
        assert (done, rest) == (set(quick), {hanging})
        gate.touch()
        assert hanging.result(30) is None

    def test_O9g_waiting_in_vain_leaves_nothing_behind(self, gate):
        # Each `wait_for` that ran out of time left an entry, and with it a reference, until the object was ready.
        async def poll():
            ref = held.remote(gate, "kept")
            for _ in range(20):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(ref, 0.001)
            await asyncio.sleep(0)
            assert ref._counts()[0] == 1
            assert not any(watch.waiting for watch in awaiting._LOOPS.values())
            gate.touch()
            assert await ref == "kept"

        asyncio.run(poll())

    def test_O9g_a_slot_used_again_is_not_taken_for_ready(self):
        async def poll():
            for _ in range(50):
                waiting = asyncio.ensure_future(give.remote(1))
                await asyncio.sleep(0)
                # Ready, perhaps, but not yet told: its slot goes to the next one.
                time.sleep(0.002)
                waiting.cancel()
                await asyncio.sleep(0)
                assert await give.remote(2) == 2

        asyncio.run(poll())

    @pytest.mark.parametrize("is_ready", [True, False])
    def test_O9g_a_task_that_raised_StopIteration_does_not_end_a_coroutine(self, is_ready):
        # Raised inside `await`, it looked like the end of the coroutine, with its argument as the value.
        @ray.remote
        def stop():
            raise StopIteration("not a value")

        async def read():
            ref = stop.remote()
            if is_ready:
                ray.wait([ref])
            await ref

        with pytest.raises(RuntimeError, match="StopIteration interacts badly") as caught:
            asyncio.run(read())
        assert isinstance(caught.value.__cause__, StopIteration)

    def test_O9g_several_threads_may_ask_for_one_result(self, gate):
        future = held.remote(gate, "value").future()
        called = []
        future.add_done_callback(called.append)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(future.result) for _ in range(3)]
            with pytest.raises(concurrent.futures.TimeoutError):
                future.result(timeout=0.05)
            with pytest.raises(concurrent.futures.TimeoutError):
                future.exception(timeout=0)
            gate.touch()
            assert [one.result(30) for one in asking] == ["value"] * 3
        assert future.exception() is None
        assert called == [future]

    def test_O9g_a_future_whose_result_was_asked_for_in_vain_is_settled_all_the_same(self, gate):
        future = held.remote(gate, "value").future()
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(timeout=0.05)
        gate.touch()
        assert concurrent.futures.wait([future], timeout=30).done == {future}
        assert future.result(0) == "value"

    def test_O9g_a_future_keeps_its_object(self, gate):
        future = held.remote(gate, "kept").future()
        gate.touch()
        assert future.result(30) == "kept"


class TestCounts:
    def test_O9h_a_copy_counts_as_one_more_local_reference(self, wait_until):
        ref = ray.put("counted")
        assert ref._counts() == (1, 0)
        other = copy.copy(ref)
        assert other is not ref
        assert other == ref
        assert ref._counts() == (2, 0)
        third = copy.deepcopy([ref])[0]
        assert ref._counts() == (3, 0)
        alias = ref
        assert alias._counts() == (3, 0), "another name is no copy"
        del other, alias
        assert ref._counts() == (2, 0)
        del ref
        assert third._counts() == (1, 0)
        assert ray.get(third) == "counted"


def test_O9g_futures_fail_when_their_session_ends(drivers):
    drivers.run(
        """
        import asyncio

        def held():
            time.sleep(1000)

        def start():
            ray.init(num_cpus=1)
            return ray.remote(held).remote()

        future = start().future()
        ray.shutdown()
        assert isinstance(future.exception(30), ray.exceptions.RaySystemError), future.exception()

        async def read():
            ref = start()
            waiting = asyncio.ensure_future(ref)
            await asyncio.sleep(0.05)
            await asyncio.to_thread(ray.shutdown)
            await waiting

        try:
            asyncio.run(read())
        except ray.exceptions.RaySystemError:
            print("ended")
        ray.init(num_cpus=1)
        assert ray.put(1).future().result(30) == 1
        """
    )
