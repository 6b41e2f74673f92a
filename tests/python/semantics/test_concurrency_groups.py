"""Groups of an actor's methods, each with threads or an event loop of its own."""

import asyncio
import gc
import os
import signal
import threading
import weakref

import pytest

import eagleray as ray

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0, concurrency_groups={"io": 2, "compute": 4})
class Threaded:
    def __init__(self):
        self.gate = threading.Event()
        self.meetings = {"io": threading.Barrier(2), "compute": threading.Barrier(4)}
        self.seen = []

    @ray.method(concurrency_group="io")
    def io(self):
        self.meetings["io"].wait(30)
        return threading.get_ident()

    @ray.method(concurrency_group="compute")
    def compute(self):
        self.meetings["compute"].wait(30)
        return threading.get_ident()

    @ray.method(concurrency_group="io")
    def block(self):
        return self.gate.wait(40)

    @ray.method(concurrency_group="compute")
    def where_compute(self):
        return threading.get_ident()

    def where(self):
        return threading.get_ident()

    def open(self):
        self.gate.set()

    @ray.method(concurrency_group="io")
    def note(self, item):
        self.seen.append(item)

    def all_seen(self):
        return self.seen


@ray.remote(num_cpus=0, concurrency_groups={"io": 2, "compute": 4})
class Async:
    def __init__(self):
        self.gate = asyncio.Event()
        self.plain_gate = threading.Event()
        self.running = self.most = 0

    @ray.method(concurrency_group="io")
    async def io(self):
        await asyncio.sleep(0)
        return threading.get_ident(), id(asyncio.get_running_loop())

    @ray.method(concurrency_group="io")
    def io_plainly(self):
        return threading.get_ident(), id(asyncio.get_running_loop())

    @ray.method(concurrency_group="compute")
    async def compute(self):
        return threading.get_ident(), id(asyncio.get_running_loop())

    async def where(self):
        return threading.get_ident(), id(asyncio.get_running_loop())

    @ray.method(concurrency_group="io")
    def block_the_loop(self):
        return self.plain_gate.wait(40)

    async def block_the_default_loop(self):
        return self.plain_gate.wait(40)

    @ray.method(concurrency_group="compute")
    async def open(self):
        self.plain_gate.set()

    @ray.method(concurrency_group="io")
    async def crowd(self):
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(5):
            await asyncio.sleep(0)
        self.running -= 1
        return self.most


def test_C3a_each_group_has_as_many_threads_as_it_says():
    actor = Threaded.remote()
    io = set(ray.get([actor.io.remote() for _ in range(2)], timeout=40))
    compute = set(ray.get([actor.compute.remote() for _ in range(4)], timeout=40))
    default = {ray.get(actor.where.remote()) for _ in range(3)}
    assert (len(io), len(compute), len(default)) == (2, 4, 1)
    assert not io & compute
    assert not (io | compute) & default


def test_C3b_in_an_async_actor_each_group_has_a_loop_and_thread_of_its_own():
    actor = Async.remote()
    places = {name: set(ray.get([getattr(actor, name).remote() for _ in range(6)])) for name in ("io", "io_plainly")}
    assert places["io"] == places["io_plainly"]
    assert len(places["io"]) == 1
    others = {ray.get(actor.compute.remote()), ray.get(actor.where.remote())} | places["io"]
    assert len({thread for thread, _ in others}) == len({loop for _, loop in others}) == 3


def test_C3b_a_groups_size_bounds_its_coroutines():
    actor = Async.remote()
    assert max(ray.get([actor.crowd.remote() for _ in range(20)], timeout=40)) == 2


@pytest.mark.parametrize("waiting", [2, 500])
def test_C3c_a_blocked_group_holds_up_no_other_however_many_calls_it_has(waiting):
    actor = Threaded.remote()
    blocked = [actor.block.remote() for _ in range(waiting)]
    assert len(set(ray.get([actor.compute.remote() for _ in range(4)], timeout=40))) == 4
    ray.get(actor.where.remote(), timeout=40)
    assert ray.wait(blocked, timeout=0)[0] == []
    ray.get(actor.open.remote(), timeout=40)
    assert ray.get(blocked, timeout=40) == [True] * waiting


@pytest.mark.parametrize("which", ["block_the_loop", "block_the_default_loop"])
def test_C3c_nor_does_a_blocked_loop(which):
    actor = Async.remote()
    blocked = [getattr(actor, which).remote() for _ in range(300)]
    ray.get(actor.compute.remote(), timeout=40)
    assert ray.wait(blocked, timeout=0)[0] == []
    ray.get(actor.open.remote(), timeout=40)
    assert ray.get(blocked, timeout=40) == [True] * 300


def test_C3d_options_send_one_call_to_another_group():
    actor = Threaded.remote()
    compute = {ray.get(actor.where_compute.remote()) for _ in range(20)}
    assert ray.get(actor.where.remote()) not in compute
    blocked = [actor.where.options(concurrency_group="io").remote() for _ in range(1)]
    assert ray.get(blocked)[0] not in {*compute, ray.get(actor.where.remote())}
    # A full group is full for such calls too.
    full = [actor.block.remote() for _ in range(2)]
    late = actor.where.options(concurrency_group="io").remote()
    assert ray.wait([late], timeout=0.2)[0] == []
    ray.get(actor.open.remote())
    ray.get([late, *full])


def test_C3e_a_call_whose_argument_is_missing_holds_up_its_own_group_only(signs):
    @ray.remote
    def late(signs):
        signs.wait("go")
        return 1

    @ray.remote(num_cpus=0, concurrency_groups={"a": 1, "b": 1})
    class Ordered:
        def __init__(self):
            self.seen = []

        @ray.method(concurrency_group="a")
        def a(self, item):
            self.seen.append(item)

        @ray.method(concurrency_group="b")
        def b(self, item):
            self.seen.append(item)

        def all(self):
            return self.seen

    actor = Ordered.remote()
    waits = [actor.a.remote(late.remote(signs)), actor.a.remote(2)]
    ray.get([actor.b.remote(10 + item) for item in range(3)], timeout=40)
    assert ray.get(actor.all.remote()) == [10, 11, 12]
    signs.set("go")
    ray.get(waits, timeout=40)
    assert ray.get(actor.all.remote()) == [10, 11, 12, 1, 2], "within the group the order is kept"


def test_C3f_a_group_of_size_zero_raises():
    with pytest.raises(ValueError, match="max_concurrency must be greater than 0"):

        @ray.remote(concurrency_groups={"io": 0})
        class Zero:
            pass


def test_C3g_a_group_that_is_not_there_raises_and_names_those_that_are():
    actor = Threaded.remote()
    with pytest.raises(ValueError, match=r"'nowhere'.*'io', 'compute'"):
        actor.where.options(concurrency_group="nowhere")
    with pytest.raises(ValueError, match=r"'nowhere'.*'io'"):

        @ray.remote(concurrency_groups={"io": 1})
        class Wrong:
            @ray.method(concurrency_group="nowhere")
            def f(self):
                pass


def test_C3h_handles_that_were_passed_on_know_the_groups():
    @ray.remote
    def use(actor):
        blocked = [actor.block.remote() for _ in range(250)]
        found = ray.get([actor.compute.remote() for _ in range(4)], timeout=40)
        ray.get(actor.open.options(concurrency_group="compute").remote())
        ray.get(blocked)
        return len(set(found))

    assert ray.get(use.remote(Threaded.remote()), timeout=50) == 4


def test_C3i_groups_end_with_their_actor(signs):
    @ray.remote(num_cpus=0, concurrency_groups={"io": 1})
    class Leaving:
        def __init__(self, signs):
            self.signs = signs

        @ray.method(concurrency_group="io")
        async def slow(self):
            self.signs.set("started")
            await asyncio.to_thread(self.signs.wait, "go")
            return "finished"

        @ray.method(concurrency_group="io")
        async def leave_there(self):
            ray.actor.exit_actor()

        async def leave(self):
            ray.actor.exit_actor()

        def __ray_shutdown__(self):
            self.signs.set("last words")

    actor = Leaving.remote(signs)
    slow = actor.slow.remote()
    signs.wait("started")
    left = actor.leave.remote()
    signs.set("go")
    assert ray.get(slow, timeout=40) == "finished", "what is under way in a group is finished first"
    with pytest.raises(ray.exceptions.ActorDiedError, match="exited by itself"):
        ray.get(left, timeout=40)
    signs.wait("last words")
    with pytest.raises(ray.exceptions.ActorDiedError, match="exited by itself"):
        ray.get(Leaving.remote(signs).leave_there.remote(), timeout=40)


@pytest.mark.parametrize("where", ["there", "here"])
def test_C3i_so_do_groups_of_threads(signs, where):
    @ray.remote(num_cpus=0, concurrency_groups={"io": 1, "other": 1})
    class Leaving:
        def __init__(self, signs):
            self.signs = signs

        @ray.method(concurrency_group="io")
        def slow(self):
            self.signs.set("started")
            self.signs.wait("go")
            return "finished"

        @ray.method(concurrency_group="other")
        def leave_there(self):
            self.signs.set("leaving")
            ray.actor.exit_actor()

        def leave_here(self):
            self.signs.set("leaving")
            ray.actor.exit_actor()

        def __ray_shutdown__(self):
            self.signs.set("last words")

    actor = Leaving.remote(signs)
    running, queued = actor.slow.remote(), actor.slow.remote()
    signs.wait("started")
    left = getattr(actor, f"leave_{where}").remote()
    signs.wait("leaving")
    signs.set("go")
    assert ray.get(running, timeout=40) == "finished"
    for lost in (left, queued):
        with pytest.raises(ray.exceptions.ActorDiedError, match="exited by itself"):
            ray.get(lost, timeout=40)
    signs.wait("last words")


@pytest.mark.parametrize("kind", ["threads", "loops"])
def test_C3i_and_with_its_process(kind, signs):
    @ray.remote(num_cpus=0, concurrency_groups={"io": 1})
    class Threads:
        @ray.method(concurrency_group="io")
        def slow(self, signs):
            signs.set("started")
            signs.wait("go")
            return "finished"

        def pid(self):
            return os.getpid()

    @ray.remote(num_cpus=0, concurrency_groups={"io": 1})
    class Loops:
        @ray.method(concurrency_group="io")
        async def slow(self, signs):
            signs.set("started")
            await asyncio.to_thread(signs.wait, "go")
            return "finished"

        def pid(self):
            return os.getpid()

    actor = (Threads if kind == "threads" else Loops).remote()
    pid = ray.get(actor.pid.remote())
    running = actor.slow.remote(signs)
    signs.wait("started")
    os.kill(pid, signal.SIGTERM)
    signs.set("go")
    assert ray.get(running, timeout=40) == "finished", "what runs in a group is finished first"
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit code 15"):
        # The interpreter runs the handler when it comes to it, and calls before that are served.
        while True:
            ray.get(actor.pid.remote(), timeout=40)


def test_C3j_a_coroutine_in_a_group_can_be_cancelled(signs):
    @ray.remote(num_cpus=0, concurrency_groups={"io": 2})
    class Sleeper:
        @ray.method(concurrency_group="io")
        async def sleep(self, signs):
            signs.set("asleep")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                signs.set("cancelled")
                raise

        async def other(self):
            return 1

    actor = Sleeper.remote()
    asleep = actor.sleep.remote(signs)
    signs.wait("asleep")
    ray.cancel(asleep)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(asleep, timeout=40)
    signs.wait("cancelled")
    assert ray.get(actor.other.remote()) == 1


NAMES = ("task_id", "specified_cgname", "concurrency_group", "name", "function", "worker", "call", "group", "kwargs")


@ray.remote(num_cpus=0, concurrency_groups={"io": 1})
class Echo:
    @ray.method(concurrency_group="io")
    def plain(self, **kwargs):
        return kwargs


@ray.remote(num_cpus=0, concurrency_groups={"io": 1})
class AsyncEcho:
    @ray.method(concurrency_group="io")
    async def grouped(self, **kwargs):
        return kwargs

    async def plain(self, **kwargs):
        return kwargs


def test_C4a_keywords_may_have_any_name():
    given = {name: f"<{name}>" for name in NAMES}

    @ray.remote
    def task(**kwargs):
        return kwargs

    echo = AsyncEcho.remote()
    calls = [Echo.remote().plain, echo.plain, echo.grouped, task]
    assert ray.get([call.remote(**given) for call in calls]) == [given] * 4


class Dropped:
    pass


@ray.remote(num_cpus=0, concurrency_groups={"io": 1})
class Keeper:
    def __init__(self):
        self.watched = []
        gc.collect()
        gc.disable()

    def _new(self):
        made = Dropped()
        self.watched.append(weakref.ref(made))
        return made

    async def plain(self):
        made = self._new()
        await asyncio.sleep(0)
        assert made is not None

    @ray.method(concurrency_group="io")
    async def grouped(self):
        made = self._new()
        await asyncio.sleep(0)
        assert made is not None

    async def fail(self):
        made = self._new()
        await asyncio.sleep(0)
        raise ValueError(made is None)

    async def alive(self):
        return [made() is not None for made in self.watched]

    async def collect(self):
        await asyncio.sleep(0)
        return gc.collect()


@pytest.mark.parametrize("method", ["plain", "grouped", "fail"])
def test_C4b_what_a_coroutine_drops_is_gone_at_its_end(method):
    actor = Keeper.remote()
    for _ in range(3):
        ref = getattr(actor, method).remote()
        if method == "fail":
            with pytest.raises(ValueError, match="False"):
                ray.get(ref)
        else:
            ray.get(ref)
    assert ray.get(actor.alive.remote()) == [False] * 3


def test_C4c_calls_make_no_cyclic_garbage():
    actor = Keeper.remote()
    ray.get([actor.plain.remote() for _ in range(10)])
    ray.get(actor.collect.remote())
    ray.get([actor.plain.remote() for _ in range(200)] + [actor.grouped.remote() for _ in range(200)])
    assert ray.get(actor.collect.remote()) < 50, "less than one object for four calls"


@ray.remote
def one():
    return 1


@ray.remote(num_cpus=0, concurrency_groups={"io": 2})
class Context:
    async def blocking_get(self):
        return ray.get(one.remote())

    @ray.method(concurrency_group="io")
    async def blocking_get_in_group(self):
        return ray.get(one.remote())

    async def first(self):
        return await self._where("first")

    @ray.method(concurrency_group="io")
    async def second(self):
        return await self._where("second")

    async def _where(self, name):
        context = ray.get_runtime_context()
        seen = set()
        for _ in range(10):
            await asyncio.sleep(0.001)
            seen.add((context.get_task_id(), context.get_task_name()))
        assert len(seen) == 1
        assert ray.get_runtime_context().get_task_name() == f"Context.{name}"
        return seen.pop()[0]


@ray.remote(num_cpus=0, max_concurrency=3)
class ThreadContext:
    def __init__(self):
        self.barrier = threading.Barrier(2)

    def first(self):
        return self._where()

    def second(self):
        return self._where()

    def _where(self):
        self.barrier.wait(30)
        context = ray.get_runtime_context()
        found = context.get_task_id(), context.get_task_name()
        self.barrier.wait(30)
        assert found == (context.get_task_id(), context.get_task_name())
        return found


def test_C5a_get_in_a_coroutine_blocks_its_loop_and_works():
    actor = Context.remote()
    calls = [actor.blocking_get.remote() for _ in range(5)] + [actor.blocking_get_in_group.remote() for _ in range(5)]
    assert ray.get(calls, timeout=40) == [1] * 10


def test_C5b_each_coroutine_sees_its_own_task():
    actor = Context.remote()
    refs = [call.remote() for _ in range(10) for call in (actor.first, actor.second)]
    assert ray.get(refs, timeout=40) == [ref.task_id().hex() for ref in refs]


def test_C5c_each_thread_sees_its_own_task():
    actor = ThreadContext.remote()
    refs = [actor.first.remote(), actor.second.options(name="another").remote()]
    wanted = [(refs[0].task_id().hex(), "ThreadContext.first"), (refs[1].task_id().hex(), "another")]
    assert ray.get(refs, timeout=40) == wanted
