"""Refs in places that nobody thinks of: cycles, exceptions, thread-locals, module globals, bytes that a stranger reads.

Each gives its value for as long as somebody can reach it, or a clear error; and what nobody can reach is let go of.
"""

import gc
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import eagleray as ray
from eagleray import testing
from eagleray.exceptions import RayTaskError

pytestmark = pytest.mark.usefixtures("shared_ray")

VALUES = {"small": 10, "large": 300_000}
both = pytest.mark.parametrize("size", VALUES.values(), ids=VALUES)


def put(size):
    ref = ray.put(np.full(size, 7, dtype=np.uint8))
    return ref, ref.hex()


def is_kept(name):
    return any(row.id == name for row in testing.objects())


@pytest.fixture
def goes(wait_until):
    """Waits until this process, its owner, has let go of a value."""
    return lambda name: wait_until(lambda: not is_kept(name), what="a value that nobody can reach to go")


class Box:
    """Something that can hold others, and itself."""


def cycle_of(ref):
    one, other = Box(), Box()
    one.other, other.other, other.ref = other, one, ref


class Odd(Exception):
    """Carries a ref."""

    def __init__(self, ref):
        super().__init__("odd")
        self.ref = ref

    def __reduce__(self):
        return Odd, (self.ref,)


@ray.remote(num_cpus=0)
class Place:
    """A process with all sorts of places to keep things in."""

    def __init__(self):
        self.local = threading.local()
        self.error = None

    def keep_in_cycle(self, held):
        gc.disable()
        cycle_of(held[0])

    def collect(self):
        gc.collect()

    def keep_in_global(self, held):
        sys.modules["json"].kept = held[0]

    def read_global(self):
        return int(ray.get(sys.modules["json"].kept, timeout=30)[0])

    def drop_global(self):
        del sys.modules["json"].kept

    def keep_in_thread(self, held):
        """A thread that keeps the ref in its locals, until it is told to end."""
        self.reads, self.go, self.end = [], threading.Event(), threading.Event()

        def live(ref):
            self.local.ref = ref
            del ref
            self.go.wait(30)
            self.reads.append(int(ray.get(self.local.ref, timeout=30)[0]))
            self.end.wait(30)

        self.thread = threading.Thread(target=live, args=(held[0],))
        self.thread.start()

    def read_thread(self):
        self.go.set()
        while not self.reads:
            time.sleep(0.01)
        return self.reads[0]

    def end_thread(self):
        self.end.set()
        self.thread.join()
        self.thread = None

    def keep_in_error(self, held):
        try:
            raise Odd(held[0])
        except Odd as error:
            self.error = error

    def read_error(self):
        return int(ray.get(self.error.ref, timeout=30)[0])

    def drop_error(self):
        self.error = None

    def raise_with(self, held):
        raise Odd(held[0])

    def raise_own(self, size):
        raise Odd(ray.put(np.full(size, 7, dtype=np.uint8)))


@both
def test_cyclic_garbage_of_the_driver_holds_a_value_until_it_is_collected(size, goes):
    gc.disable()
    try:
        ref, name = put(size)
        cycle_of(ref)
        del ref
        assert is_kept(name)
        gc.collect()
        goes(name)
    finally:
        gc.enable()


@both
def test_so_does_that_of_a_worker(size, goes):
    place = Place.remote()
    ref, name = put(size)
    ray.get(place.keep_in_cycle.remote([ref]), timeout=30)
    del ref
    gc.collect()
    assert is_kept(name)
    ray.get(place.collect.remote(), timeout=30)
    goes(name)


@both
def test_that_of_a_worker_is_collected_on_demand(size, goes):
    place = Place.remote()
    ref, name = put(size)
    ray.get(place.keep_in_cycle.remote([ref]), timeout=30)
    del ref
    testing.global_gc()
    goes(name)


@both
@pytest.mark.parametrize("where", ["global", "thread", "error"])
def test_a_ref_kept_in_a_module_a_thread_local_or_an_exception_is_good_and_let_go_with_it(size, where, goes):
    place = Place.remote()
    ref, name = put(size)
    ray.get(getattr(place, f"keep_in_{where}").remote([ref]), timeout=30)
    del ref
    gc.collect()
    assert is_kept(name)
    assert ray.get(getattr(place, f"read_{where}").remote(), timeout=30) == 7
    ends = {"global": place.drop_global, "thread": place.end_thread, "error": place.drop_error}
    ray.get(ends[where].remote(), timeout=30)
    goes(name)


@both
@pytest.mark.parametrize("where", ["global", "thread", "error"])
def test_it_is_let_go_too_if_that_process_is_killed(size, where, goes):
    place = Place.remote()
    ref, name = put(size)
    ray.get(getattr(place, f"keep_in_{where}").remote([ref]), timeout=30)
    del ref
    gc.collect()
    assert is_kept(name)
    ray.kill(place)
    goes(name)


# Such a ref counted for ever in the process that raised it: a trial whether the exception can be pickled was taken for its leaving.
# proves: R1k
@both
def test_a_ref_in_the_exception_that_a_task_raised_is_good_and_let_go_with_it(size, goes):
    place = Place.remote()
    ref, name = put(size)
    failed = place.raise_with.remote([ref])
    del ref
    with pytest.raises(Odd) as caught:
        ray.get(failed, timeout=30)
    assert isinstance(caught.value, RayTaskError)
    assert ray.get(caught.value.ref, timeout=30)[0] == 7

    # Also through the error of a task that needed the failed one, and of one that got it.
    @ray.remote(num_cpus=0)
    def needs(value):
        return value

    @ray.remote(num_cpus=0)
    def gets(held):
        return ray.get(held[0], timeout=30)

    for other in (needs.remote(failed), gets.remote([failed])):
        with pytest.raises(Odd) as caught:
            ray.get(other, timeout=30)
        assert ray.get(caught.value.ref, timeout=30)[0] == 7
    del caught, failed, other
    gc.collect()
    goes(name)


@both
def test_a_ref_in_an_exception_that_belongs_to_whoever_raised_it_is_good(size):
    place = Place.remote()
    failed = place.raise_own.remote(size)
    with pytest.raises(Odd) as caught:
        ray.get(failed, timeout=30)
    assert ray.get(caught.value.ref, timeout=30)[0] == 7
    # Read a second time, from the ref that still holds it.
    del caught
    gc.collect()
    with pytest.raises(Odd) as caught:
        ray.get(failed, timeout=30)
    assert ray.get(caught.value.ref, timeout=30)[0] == 7


@both
@pytest.mark.parametrize("returns", [2, "streaming", "dynamic"])
def test_so_it_is_in_each_of_several_returns_and_in_what_a_generator_raised(size, returns, goes):
    @ray.remote(num_cpus=0)
    def plain(held):
        raise Odd(held[0])

    @ray.remote(num_cpus=0)
    def generator(held):
        yield 1
        raise Odd(held[0])

    ref, name = put(size)
    made = (plain if returns == 2 else generator).options(num_returns=returns).remote([ref])
    del ref
    if returns == "dynamic":
        made = ray.get(made, timeout=30)
    last = list(made)[-1]
    del made
    gc.collect()
    with pytest.raises(Odd) as caught:
        ray.get(last, timeout=30)
    assert ray.get(caught.value.ref, timeout=30)[0] == 7
    del caught, last
    gc.collect()
    goes(name)


@both
def test_a_run_that_is_tried_again_lets_go_of_what_its_exception_named(size, signs, goes):
    @ray.remote(num_cpus=0, max_retries=2, retry_exceptions=True)
    def flaky(held):
        signs.set("runs")
        if signs.count("runs") < 3:
            raise Odd(held[0])
        return "done"

    ref, name = put(size)
    made = flaky.remote([ref])
    del ref
    assert ray.get(made, timeout=30) == "done"
    goes(name)


@pytest.mark.parametrize("kind", ["async", "threaded"])
def test_a_ref_in_the_exception_of_a_concurrent_actor_is_good_and_let_go(kind, goes):
    class Async:
        async def fail(self, held):
            raise Odd(held[0])

    class Threaded:
        def fail(self, held):
            raise Odd(held[0])

    cls = ray.remote(num_cpus=0, max_concurrency=3)(Async if kind == "async" else Threaded)
    actor = cls.remote()
    ref, name = put(10)
    failed = actor.fail.remote([ref])
    del ref
    with pytest.raises(Odd) as caught:
        ray.get(failed, timeout=30)
    assert ray.get(caught.value.ref, timeout=30)[0] == 7
    del caught, failed
    gc.collect()
    goes(name)


@both
def test_a_ref_that_a_frame_of_a_traceback_holds_lives_as_long_as_the_error(size, goes):
    def fails(ref):
        raise KeyError(ref.hex())

    ref, name = put(size)
    try:
        fails(ref)
    except KeyError as error:
        kept = error
    del ref
    gc.collect()
    assert is_kept(name), "the frame's own variable"
    del kept
    gc.collect()
    goes(name)


@both
def test_thread_locals_of_the_driver(size, goes):
    local, began, end = threading.local(), threading.Event(), threading.Event()

    def live(ref):
        local.ref = ref
        del ref
        began.set()
        end.wait(30)

    ref, name = put(size)
    thread = threading.Thread(target=live, args=(ref,))
    thread.start()
    began.wait(30)
    del ref
    # The thread object itself has let go of its arguments by now, or does so with its end.
    assert is_kept(name)
    end.set()
    thread.join()
    del thread
    goes(name)


STRANGER = """
import pickle, sys
import eagleray as ray

how, path = sys.argv[1:]
blob = open(path, "rb").read()
if how == "with a session":
    ray.init("local", num_cpus=1)
    ray.get(ray.put(1))
try:
    ref = pickle.loads(blob)
    print("unpickled", flush=True)
    print("value", ray.get(ref, timeout=20))
except Exception as error:
    print("told", type(error).__name__, error, flush=True)
# It is none the worse for it.
ray.shutdown()
ray.init("local", num_cpus=1)
print("works", ray.get(ray.put(2)))
"""

#: What such a program says.
SAID = [
    "unpickled",
    "told ValueError Ray objects whose owner is unknown cannot be read: the ref is from an earlier session, another cluster, or was made from bytes",
    "works 2",
]


# Owners are numbered anew by every node: a stranger with a session of its own took itself for the owner, and said that the value was freed.
# proves: O6d
@both
@pytest.mark.parametrize("how", ["without a session", "with a session"])
def test_a_ref_that_a_stranger_unpickles_is_a_clear_error(size, how, drivers, tmp_path):
    ref, _ = put(size)
    path = tmp_path / "pickled"
    path.write_bytes(pickle.dumps(ref))
    out, err = drivers.run(STRANGER, how, path)
    assert out.splitlines() == SAID, out + err
    # The value is still there for those it belongs to: what left by plain pickle is held for ever.
    name = ref.hex()
    del ref
    gc.collect()
    assert is_kept(name)
    assert ray.get(pickle.loads(path.read_bytes()), timeout=30)[0] == 7


def test_a_ref_unpickled_in_a_plain_subprocess_of_a_worker_is_a_clear_error(tmp_path):
    @ray.remote(num_cpus=0)
    def ask(path):
        done = subprocess.run(
            [sys.executable, "-c", "import sys\n" + STRANGER, "without a session", path],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        return done.stdout + done.stderr

    ref, _ = put(10)
    path = tmp_path / "pickled"
    path.write_bytes(pickle.dumps(ref))
    out = ray.get(ask.remote(str(path)), timeout=55)
    assert out.splitlines() == SAID, out


@both
def test_a_ref_that_another_driver_of_the_same_node_unpickles_is_good_while_it_is_held(
    size, drivers, tmp_path, wait_until
):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    path = tmp_path / "pickled"
    owner = drivers.start(
        """
        import pickle
        import numpy as np
        ray.init(address="auto")
        ref = ray.put(np.full(int(sys.argv[2]), 7, dtype=np.uint8))
        open(sys.argv[1], "wb").write(pickle.dumps(ref))
        print("ready", flush=True)
        sys.stdin.readline()
        """,
        path,
        size,
    )
    owner.hear_until("ready")
    reader = drivers.start(
        """
        import pickle
        ray.init(address="auto")
        ref = pickle.loads(open(sys.argv[1], "rb").read())
        print("value", int(ray.get(ref, timeout=20)[0]), flush=True)
        sys.stdin.readline()
        for held in (ref, pickle.loads(open(sys.argv[1], "rb").read())):
            print("then value", int(ray.get(held, timeout=20)[0]), flush=True)
        """,
        path,
    )
    assert reader.hear_until("value") == "7", "its owner is there to ask"
    owner.say("end")
    assert owner.end()[0] == 0
    reader.say("again")
    for _ in range(2):
        assert reader.hear_until("then") == "value 7", "whoever holds it has it"
    assert reader.end()[0] == 0
    wait_until(lambda: drivers.command("memory", "--audit").returncode == 0, what="nothing is kept")


def test_a_ref_from_an_earlier_session_of_the_same_process(no_session):
    # The last test here: it ends the session of the others.
    ray.init(num_cpus=1)
    ref = ray.put(1)
    pickled = pickle.dumps(ref)
    ray.shutdown()
    ray.init(num_cpus=1)
    for old in (ref, pickle.loads(pickled)):
        with pytest.raises(ValueError, match="owner is unknown .* from an earlier session"):
            ray.get(old, timeout=20)
    assert ray.get(ray.put(os.getpid())) == os.getpid()
