"""How long an actor lives: as long as somebody can call it."""

import gc
import os
import time
import weakref

import pytest

import eagleray as ray

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(num_cpus=0)
class Actor:
    def __init__(self):
        self.calls = 0

    def pid(self):
        self.calls += 1
        return os.getpid()

    def nap(self, seconds):
        time.sleep(seconds)
        self.calls += 1
        return self.calls


@ray.remote(num_cpus=0)
class Gate:
    def __init__(self):
        import asyncio

        self.event = asyncio.Event()

    async def wait(self):
        await self.event.wait()

    async def open(self):
        self.event.set()


@ray.remote(num_cpus=0)
class Keeper:
    def __init__(self):
        self.kept = None

    def keep(self, held):
        self.kept = held

    def call(self):
        return ray.get(self.kept["handle"].pid.remote())

    def drop(self):
        self.kept = None


@pytest.fixture
def ends(leaks, wait_until):
    """Waits for the end of a process."""

    def wait(pid):
        wait_until(lambda: not leaks.is_alive(pid), what=f"the end of {pid}")

    return wait


def still_lives(leaks, pid):
    """Whether it outlives a moment in which it could have been ended."""
    gc.collect()
    time.sleep(0.3)
    return leaks.is_alive(pid)


def test_A3a_an_actor_ends_once_its_last_handle_is_gone(ends, leaks):
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    other = actor
    del actor
    assert still_lives(leaks, pid), "a second handle was not counted"
    del other
    ends(pid)


def test_A3a_calls_that_were_queued_before_are_done_first(ends):
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    calls = [actor.nap.remote(0.05) for _ in range(10)]
    del actor
    assert ray.get(calls) == list(range(2, 12))
    ends(pid)


def test_A3a_calls_of_a_task_that_ended_are_done_first(ends):
    @ray.remote(num_cpus=0)
    def call(held):
        return [[held[0].nap.remote(0.2) for _ in range(3)]]

    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    refs = call.remote([actor])
    del actor
    assert ray.get(ray.get(refs)[0]) == [2, 3, 4]
    del refs
    ends(pid)


def test_A3b_a_handle_in_the_arguments_of_a_pending_task_keeps_the_actor(ends, leaks):
    @ray.remote(num_cpus=0)
    def call(_gate, held):
        return ray.get(held["actor"].pid.remote())

    gate, actor = Gate.remote(), Actor.remote()
    pid = ray.get(actor.pid.remote())
    pending = call.remote(gate.wait.remote(), {"actor": actor})
    del actor
    assert still_lives(leaks, pid)
    gate.open.remote()
    assert ray.get(pending) == pid
    ends(pid)


def test_A3b_a_handle_that_a_function_captured_keeps_the_actor():
    def captures():
        actor = Actor.remote()

        @ray.remote(num_cpus=0)
        def call(_gate):
            return ray.get(actor.pid.remote())

        return ray.get(actor.pid.remote()), call

    gate = Gate.remote()
    pid, call = captures()
    pending = call.remote(gate.wait.remote())
    del call
    gate.open.remote()
    assert ray.get(pending) == pid


def test_A3c_a_returned_handle_keeps_the_actor(ends, leaks):
    @ray.remote(num_cpus=0)
    def make():
        return Actor.remote()

    ref = make.remote()
    pid = ray.get(ray.get(ref).pid.remote())
    assert still_lives(leaks, pid), "the result of the task was not counted"
    actor = ray.get(ref)
    del ref
    assert ray.get(actor.pid.remote()) == pid
    del actor
    ends(pid)


def test_A3c_a_nested_handle_in_a_put_value_keeps_the_actor(ends, leaks):
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    ref = ray.put([{"actor": actor}])
    del actor
    assert still_lives(leaks, pid)
    assert ray.get(ray.get(ref)[0]["actor"].pid.remote()) == pid
    del ref
    ends(pid)


def test_A3c_a_handle_that_another_actor_keeps_keeps_the_actor(ends, leaks):
    keeper, actor = Keeper.remote(), Actor.remote()
    pid = ray.get(actor.pid.remote())
    ray.get(keeper.keep.remote({"handle": actor}))
    del actor
    assert still_lives(leaks, pid)
    assert ray.get(keeper.call.remote()) == pid
    ray.get(keeper.drop.remote())
    ends(pid)


def test_A3c_a_handle_given_to_a_constructor_keeps_the_actor(ends, leaks):
    @ray.remote(num_cpus=0)
    class Holder:
        def __init__(self, held):
            self.held = held

        def call(self):
            return ray.get(self.held[0].pid.remote())

    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    holder = Holder.remote([actor])
    del actor
    assert ray.get(holder.call.remote()) == pid
    assert still_lives(leaks, pid)
    del holder
    ends(pid)


def test_A3c_a_handle_passed_through_a_chain_of_tasks_keeps_the_actor(ends):
    @ray.remote(num_cpus=0)
    def pass_on(held, depth):
        if depth == 0:
            return ray.get(held[0].pid.remote())
        return ray.get(pass_on.remote(held, depth - 1))

    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    result = pass_on.remote([actor], 3)
    del actor
    assert ray.get(result) == pid
    ends(pid)


def test_A3d_a_call_on_an_actor_that_nobody_holds_still_runs(ends):
    ends(ray.get(Actor.remote().pid.remote()))
    assert ray.get([Actor.remote().nap.remote(0.05) for _ in range(5)]) == [1] * 5


def test_A3d_such_a_call_runs_inside_a_task_too():
    @ray.remote(num_cpus=0)
    def call():
        return ray.get(Actor.remote().nap.remote(0))

    assert ray.get(call.remote()) == 1


def test_A3e_an_actor_that_nobody_can_call_is_not_restarted(tmp_path, ends):
    @ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    class Restarts:
        def __init__(self, folder):
            (folder / f"life-{os.getpid()}").touch()

        def pid(self):
            return os.getpid()

    actor = Restarts.remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    del actor
    ends(pid)
    time.sleep(0.5)
    assert [path.name for path in tmp_path.iterdir()] == [f"life-{pid}"]


def test_A3f_a_handle_is_freed_by_its_count_alone(ends):
    gc.disable()
    try:
        actor = Actor.remote()
        pid = ray.get(actor.pid.remote())
        ray.get(actor.pid.options(name="other").remote())
        method = actor.pid
        watch = weakref.ref(actor)
        del actor, method
        assert watch() is None, "something in the handle refers back to it"
        ends(pid)
        made = Actor.options(num_cpus=0)
        actor = made.remote()
        watch = weakref.ref(actor)
        del actor, made
        assert watch() is None
    finally:
        gc.enable()


def test_A3c_a_handle_read_out_of_a_value_keeps_the_actor_beyond_the_value(ends, leaks):
    @ray.remote(num_cpus=0)
    class Reader:
        def read(self, refs):
            self.kept = ray.get(refs[0])

        def call(self):
            return ray.get(self.kept[0]["handle"].pid.remote())

    reader, actor = Reader.remote(), Actor.remote()
    pid = ray.get(actor.pid.remote())
    value = ray.put([{"handle": actor}])
    ray.get(reader.read.remote([value]))
    del actor, value
    gc.collect()
    assert ray.get(reader.call.remote()) == pid
    # Its keeper's process goes without letting go of anything.
    ray.kill(reader)
    ends(pid)


def test_A3c_a_result_that_nobody_has_read_keeps_the_handle_in_it(ends):
    @ray.remote
    def make():
        actor = Actor.remote()
        return ray.get(actor.pid.remote()), {"handle": [actor]}

    ref = make.remote()
    ray.wait([ref])
    time.sleep(0.2)
    pid, made = ray.get(ref)
    del ref
    assert ray.get(made["handle"][0].pid.remote()) == pid
    del made
    gc.collect()
    ends(pid)


def test_A3a_calls_queued_in_a_group_are_done_first(ends, signs):
    @ray.remote(num_cpus=0, concurrency_groups={"io": 1})
    class Grouped:
        @ray.method(concurrency_group="io")
        def wait(self, signs):
            signs.wait("go")
            signs.set("done")
            return os.getpid()

    actor = Grouped.remote()
    refs = [actor.wait.remote(signs) for _ in range(3)]
    del actor
    gc.collect()
    signs.set("go")
    pid = ray.get(refs, timeout=30)[2]
    assert signs.count("done") == 3
    ends(pid)
