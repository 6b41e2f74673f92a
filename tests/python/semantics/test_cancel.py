"""`cancel`: tasks (K1), what hangs on them (K2), who may do it (K3), calls on actors (K4)."""

import asyncio
import os
import signal
import threading
import time

import pytest

import eagleray as ray
from eagleray.exceptions import (
    RayTaskError,
    TaskCancelledError,
)

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@ray.remote(max_retries=0)
def busy(signs, name="busy"):
    """Runs until it is interrupted, in many short steps."""
    try:
        # Whoever sees it may cancel before the next line is reached.
        signs.set(f"{name}-started")
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        main = threading.current_thread() is threading.main_thread()
        signs.set(f"{name}-interrupted" if main else f"{name}-interrupted-elsewhere")
        raise


@ray.remote
def hold(signs, name, value=None):
    """Runs until it is released."""
    signs.set(f"{name}-started")
    signs.wait(f"{name}-go")
    signs.set(f"{name}-ended")
    return value


@ray.remote
def run(signs, name, value=None):
    signs.set(name)
    return value


def cancelled(ref):
    with pytest.raises(TaskCancelledError, match=f"Task: {ref.task_id().hex()} was cancelled") as info:
        ray.get(ref, timeout=30)
    return info.value


def test_K1a_queued_task_never_runs(signs):
    # Both CPUs are taken, so the third one waits.
    holders = [hold.remote(signs, f"holder{number}") for number in range(2)]
    for number in range(2):
        signs.wait(f"holder{number}-started")
    queued = [run.remote(signs, "ran") for _ in range(5)]
    for ref in queued:
        ray.cancel(ref)
    for ref in queued:
        cancelled(ref)
    for number in range(2):
        signs.set(f"holder{number}-go")
    ray.get(holders)
    # Whatever was queued behind would have run by now.
    ray.get(run.remote(signs, "after"))
    assert signs.count("ran") == 0


def test_K1b_task_that_waits_for_its_arguments_never_runs(signs):
    slow = hold.remote(signs, "slow", 1)
    waiting = run.remote(signs, "ran", slow)
    ray.cancel(waiting)
    cancelled(waiting)
    signs.set("slow-go")
    assert ray.get(slow) == 1
    ray.get(run.remote(signs, "after"))
    assert signs.count("ran") == 0


def test_K1c_running_task_gets_keyboard_interrupt_in_its_main_thread(signs):
    ref = busy.remote(signs)
    signs.wait("busy-started")
    ray.cancel(ref)
    cancelled(ref)
    assert signs.count("busy-interrupted") == 1
    assert signs.count("busy-interrupted-elsewhere") == 0
    # The worker and its next tasks are unharmed.
    assert ray.get(run.remote(signs, "after", 7)) == 7


def test_K1c_also_while_it_sleeps_or_waits_for_a_value(signs):
    @ray.remote
    def sleep():
        signs.set("sleeping")
        time.sleep(60)

    @ray.remote
    def wait_for(refs):
        signs.set("waiting")
        ray.get(refs)

    slow = hold.remote(signs, "slow")
    sleeping, waiting = sleep.remote(), wait_for.remote([slow])
    for name, ref in (("sleeping", sleeping), ("waiting", waiting)):
        signs.wait(name)
        ray.cancel(ref, recursive=False)
        cancelled(ref)
    signs.set("slow-go")
    ray.get(slow)


# A signal that came just before the task entered a system call did not end that call: one in some thousand cancelled tasks slept on. Here
# another thread takes the signal, so that the main thread never hears of it by itself.
def test_K1c_also_if_it_sleeps_when_the_signal_has_been(signs):
    @ray.remote(max_retries=0)
    def sleep():
        is_over = threading.Event()
        threading.Thread(target=is_over.wait, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            signs.set("sleeping")
            time.sleep(600)
        except KeyboardInterrupt:
            signs.set("interrupted")
            # Once is enough.
            time.sleep(1)
            signs.set("cleaned-up")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            is_over.set()
        return "said"

    ref = sleep.remote()
    signs.wait("sleeping")
    ray.cancel(ref)
    assert ray.get(ref, timeout=30) == "said"
    assert signs.count("interrupted") == signs.count("cleaned-up") == 1


class Slow:
    """Takes its time to be unpickled."""

    def __init__(self, signs):
        self.signs = signs

    def __reduce__(self):
        return _load_slowly, (self.signs,)


def _load_slowly(signs):
    signs.set("loading")
    try:
        signs.wait("load")
        time.sleep(0.2)
    except KeyboardInterrupt:
        signs.set("interrupted-while-loading")
        raise
    signs.set("loaded")
    return "loaded"


def test_K1d_interrupt_waits_until_the_arguments_are_unpickled(signs):
    @ray.remote(max_retries=0)
    def use(_value):
        signs.set("ran")

    ref = use.remote(Slow(signs))
    signs.wait("loading")
    ray.cancel(ref)
    signs.set("load")
    cancelled(ref)
    assert signs.count("loaded") == 1
    assert signs.count("interrupted-while-loading") == 0
    assert signs.count("ran") == 0


def test_K1e_task_that_catches_it_may_return(signs):
    @ray.remote
    def stubborn():
        try:
            signs.set("started")
            time.sleep(60)
        except KeyboardInterrupt:
            return "in spite of it"

    ref = stubborn.remote()
    signs.wait("started")
    ray.cancel(ref)
    assert ray.get(ref) == "in spite of it"


def test_K1f_force_kills_the_worker(signs, leaks, wait_until):
    @ray.remote
    def deaf():
        while True:
            try:
                signs.set(f"pid-{os.getpid()}")
                time.sleep(60)
            except KeyboardInterrupt:
                continue

    ref = deaf.remote()
    wait_until(lambda: [name for name in os.listdir(signs.folder) if name.startswith("pid-")])
    (pid,) = [int(name[4:]) for name in os.listdir(signs.folder) if name.startswith("pid-")]
    ray.cancel(ref, force=True)
    cancelled(ref)
    leaks.check([pid])
    ray.get(run.remote(signs, "after"))
    # Not tried again on another worker.
    assert len([name for name in os.listdir(signs.folder) if name.startswith("pid-")]) == 1


def test_K1g_cancelling_a_finished_task_changes_nothing(signs):
    ref = run.remote(signs, "ran", 5)
    assert ray.get(ref) == 5
    ray.cancel(ref)
    ray.cancel(ref, force=True)
    assert ray.get(ref) == 5
    assert ray.get(run.remote(signs, "after", 6)) == 6


@ray.remote(num_cpus=0, max_retries=0)
def parent(signs, depth):
    """A task with children `depth` levels deep, the last of which is busy."""
    signs.set(f"parent{depth}-started")
    child = parent.remote(signs, depth - 1) if depth else busy.options(num_cpus=0).remote(signs)
    return ray.get(child)


def test_K2a_children_and_theirs_are_cancelled_too(signs):
    ref = parent.remote(signs, 2)
    signs.wait("busy-started")
    ray.cancel(ref)
    cancelled(ref)
    signs.wait("busy-interrupted")


def test_K2b_calls_of_the_task_on_async_actors_are_cancelled(signs):
    @ray.remote
    class Async:
        async def wait(self, signs):
            signs.set("call-started")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                signs.set("call-cancelled")
                raise

    @ray.remote(num_cpus=0)
    def call(actor, signs):
        ray.get(actor.wait.remote(signs))

    actor = Async.remote()
    ref = call.remote(actor, signs)
    signs.wait("call-started")
    ray.cancel(ref)
    cancelled(ref)
    signs.wait("call-cancelled")


def test_K2c_recursive_false_leaves_children_alone(signs):
    @ray.remote(num_cpus=0, max_retries=0)
    def parent_of(signs):
        child = hold.options(num_cpus=0).remote(signs, "child")
        signs.wait("child-started")
        signs.set("parent-ready")
        ray.get(child)

    ref = parent_of.remote(signs)
    signs.wait("parent-ready")
    ray.cancel(ref, recursive=False)
    cancelled(ref)
    signs.set("child-go")
    signs.wait("child-ended")


def test_K2d_call_on_a_sync_actor_that_the_task_waits_for_goes_on(signs):
    @ray.remote
    class Sync:
        def work(self, signs):
            signs.set("work-started")
            signs.wait("work-go")
            signs.set("work-ended")
            return "done"

    @ray.remote(num_cpus=0)
    def call(actor, signs):
        return ray.get(actor.work.remote(signs))

    actor = Sync.remote()
    ref = call.remote(actor, signs)
    signs.wait("work-started")
    ray.cancel(ref)
    cancelled(ref)
    signs.set("work-go")
    signs.wait("work-ended")


def test_K2e_what_depends_on_the_cancelled_task_fails(signs):
    ref = busy.remote(signs)
    first = run.remote(signs, "first", ref)
    second = run.remote(signs, "second", first)
    signs.wait("busy-started")
    ray.cancel(ref)
    for dependent in (first, second):
        with pytest.raises(TaskCancelledError, match="This task or its dependency was cancelled") as info:
            ray.get(dependent, timeout=30)
        assert isinstance(info.value, RayTaskError)
        assert dependent.task_id().hex() not in str(info.value), "nobody cancelled that one"
    assert signs.count("first") == signs.count("second") == 0


def test_K2f_what_the_cancelled_task_depends_on_goes_on(signs):
    source = hold.remote(signs, "source", 3)
    middle = run.remote(signs, "middle", source)
    signs.wait("source-started")
    ray.cancel(middle)
    cancelled(middle)
    signs.set("source-go")
    assert ray.get(source) == 3


def test_K3a_borrower_of_the_ref_can_cancel(signs):
    @ray.remote(num_cpus=0)
    def cancel_it(refs):
        ray.cancel(refs[0])

    ref = busy.remote(signs)
    signs.wait("busy-started")
    ray.get(cancel_it.remote([ref]))
    cancelled(ref)
    assert signs.count("busy-interrupted") == 1


@pytest.mark.parametrize("force", [False, True])
def test_K3b_cancelled_task_is_not_retried(signs, force):
    @ray.remote(max_retries=5, retry_exceptions=True)
    def once():
        signs.set("started")
        time.sleep(60)

    ref = once.remote()
    signs.wait("started")
    ray.cancel(ref, force=force)
    cancelled(ref)
    ray.get(run.remote(signs, "after"))
    assert signs.count("started") == 1


@ray.remote
class Worker:
    """An async actor."""

    async def wait(self, signs, name):
        signs.set(f"{name}-started")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            signs.set(f"{name}-cancelled")
            raise

    async def count(self, signs):
        signs.set("counted")

    async def asks(self):
        return ray.get_runtime_context().is_canceled()


def test_K4a_coroutine_gets_cancelled_error(signs):
    worker = Worker.remote()
    ref = worker.wait.remote(signs, "call")
    signs.wait("call-started")
    ray.cancel(ref)
    cancelled(ref)
    assert signs.count("call-cancelled") == 1
    ray.get(worker.count.remote(signs))


@pytest.mark.parametrize("way", ["returns", "raises", "goes on"])
def test_K4g_a_coroutine_that_catches_the_cancellation_was_cancelled_all_the_same(signs, way):
    @ray.remote
    class Stubborn:
        async def run(self):
            signs.set("began")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                signs.set("caught")
                if way == "raises":
                    raise ValueError("something else") from None
                if way == "goes on":
                    await asyncio.sleep(0.01)
                return "a value"

    actor = Stubborn.remote()
    ref = actor.run.remote()
    signs.wait("began")
    ray.cancel(ref)
    error = cancelled(ref)
    assert isinstance(error, ray.exceptions.RayTaskError)
    assert f"Task: {ref.task_id().hex()} was cancelled." in str(error)
    assert signs.count("caught") == 1


def test_K4b_queued_async_call_never_runs_and_the_error_names_it(signs):
    worker = Worker.options(max_concurrency=1).remote()
    running = worker.wait.remote(signs, "first")
    signs.wait("first-started")
    queued = worker.count.remote(signs)
    ray.cancel(queued)
    error = cancelled(queued)
    assert str(error) == f"Task: {queued.task_id().hex()} was cancelled."
    ray.cancel(running)
    cancelled(running)
    ray.get(worker.__ray_ready__.remote())
    assert signs.count("counted") == 0


def test_K4c_thousands_of_calls_may_be_submitted_and_cancelled_at_once(signs):
    worker = Worker.options(max_concurrency=50).remote()
    ray.get(worker.count.remote(signs))
    refs = []
    lock = threading.Lock()

    def submit(number):
        for index in range(250):
            ref = worker.wait.remote(signs, f"n{number}")
            with lock:
                refs.append(ref)
            if index % 2:
                ray.cancel(ref)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ref in refs:
        ray.cancel(ref)
    for ref in refs:
        cancelled(ref)
    assert len(refs) == 2500
    ray.get(worker.count.remote(signs))


def test_K4d_force_is_refused_for_actor_calls(signs):
    worker = Worker.remote()
    ref = worker.wait.remote(signs, "call")
    with pytest.raises(ValueError, match="force=True is not supported"):
        ray.cancel(ref, force=True)
    ray.cancel(ref)
    cancelled(ref)


@pytest.mark.parametrize("threads", [1, 3])
def test_K4e_sync_call_runs_on_and_its_result_becomes_the_error(signs, threads):
    @ray.remote
    class Sync:
        def work(self, signs):
            before = ray.get_runtime_context().is_canceled()
            signs.set("started")
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.005)
            signs.set(f"saw-it-after-{before}")
            return "a value that nobody gets"

        def ready(self):
            return ray.get_runtime_context().is_canceled()

    actor = Sync.options(max_concurrency=threads).remote()
    ref = actor.work.remote(signs)
    signs.wait("started")
    ray.cancel(ref)
    cancelled(ref)
    assert signs.count("saw-it-after-False") == 1
    # The next call is not meant.
    assert ray.get(actor.ready.remote()) is False


def test_K4f_async_actor_has_no_is_canceled():
    worker = Worker.remote()
    with pytest.raises(RuntimeError, match="not supported in an async actor"):
        ray.get(worker.asks.remote())


def test_what_is_no_ref_raises_type_error():
    with pytest.raises(TypeError, match="only supported for object refs.*Got: <class 'str'>"):
        ray.cancel("not a ref")
