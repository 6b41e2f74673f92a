"""User code that ends its process, or never ends, or breaks its own streams. Each gives an error that says what happened; the rest
of the program goes on."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError, RaySystemError, RayTaskError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def works(value=1):
    return value


@ray.remote
class Actor:
    """Does what it is told, to its own harm."""

    def run(self, function, *args):
        return function(*args)

    def works(self):
        return 1


def once(function, *args):
    """Runs it in a task that is not retried."""
    return ray.remote(max_retries=0)(lambda: function(*args)).remote()


def segfault():
    import ctypes

    ctypes.string_at(0)


def outer_frame_of_the_crash():
    segfault()


@pytest.mark.parametrize("code", [0, 1, 77])
def test_os_exit_in_a_task_names_the_code(code):
    with pytest.raises(WorkerCrashedError, match=f"exit code {code}"):
        ray.get(once(os._exit, code))
    assert ray.get(works.remote()) == 1


def test_os_exit_in_an_actor_names_the_code():
    actor = Actor.remote()
    with pytest.raises(ActorDiedError, match="its worker process has died.*exit code 77"):
        ray.get(actor.run.remote(os._exit, 77))
    with pytest.raises(ActorDiedError, match="exit code 77"):
        ray.get(actor.works.remote())
    assert ray.get(works.remote()) == 1


def test_segfault_in_a_task_shows_the_signal_and_the_python_stack():
    with pytest.raises(WorkerCrashedError, match="SIGSEGV") as info:
        ray.get(once(outer_frame_of_the_crash))
    text = str(info.value)
    assert "Segmentation fault" in text
    assert "in outer_frame_of_the_crash" in text
    assert "in segfault" in text
    assert ray.get(works.remote()) == 1


def test_segfault_in_an_actor_shows_them_too():
    actor = Actor.remote()
    with pytest.raises(ActorDiedError, match="SIGSEGV") as info:
        ray.get(actor.run.remote(segfault))
    assert "in segfault" in str(info.value)


def test_segfault_in_a_constructor_fails_the_actors_calls():
    @ray.remote
    class Born:
        def __init__(self):
            segfault()

        def works(self):
            return 1

    with pytest.raises(ActorDiedError, match="SIGSEGV"):
        ray.get(Born.remote().works.remote())


@pytest.mark.parametrize("where", ["task", "actor"])
@pytest.mark.parametrize("log_to_driver", [True, False], ids=["printed", "not printed"])
def test_the_stack_of_a_crash_is_shown_once(drivers, where, log_to_driver):
    # It came as the worker's output, in the driver's warning and in the error.
    code = """
    import ctypes
    ray.init(num_cpus=1, log_to_driver=sys.argv[2] == "True")

    @ray.remote(max_retries=0)
    def falls():
        ctypes.string_at(0)

    @ray.remote
    class Falls:
        def falls(self):
            ctypes.string_at(0)

    ray.get(falls.remote() if sys.argv[1] == "task" else Falls.remote().falls.remote())
    """
    out, err = drivers.run(code, where, log_to_driver, code_wanted=1)
    assert (out + err).count("Fatal Python error: Segmentation fault") == 1, out + err
    assert re.search(r"Its process, \d+, ended with signal 11 \(SIGSEGV\)\.", err), err


def test_the_stack_of_a_crash_is_kept_beside_what_the_worker_printed(wait_until):
    def crash():
        print("last words", file=sys.stderr, flush=True)
        segfault()

    with pytest.raises(WorkerCrashedError, match="SIGSEGV") as info:
        ray.get(once(crash))
    (name,) = re.findall(r"(\S+/logs/crashed-\d+)\.\*", str(info.value))
    printed, stack = Path(f"{name}.err"), Path(f"{name}.stack")
    # The error may come a moment before the files have their names.
    wait_until(lambda: printed.exists() and stack.exists())
    assert "last words\n" in printed.read_text()
    assert stack.read_text().startswith("Fatal Python error: Segmentation fault")


def test_the_stack_of_a_child_that_a_task_forked_is_its_output(drivers):
    code = """
    import ctypes, multiprocessing
    ray.init(num_cpus=1)

    @ray.remote
    def forks():
        child = multiprocessing.get_context("fork").Process(target=ctypes.string_at, args=(0,))
        child.start()
        child.join()
        return child.exitcode

    print("code", ray.get(forks.remote()))
    """
    out, err = drivers.run(code)
    assert "code -11" in out
    assert (out + err).count("Fatal Python error: Segmentation fault") == 1, err


@pytest.mark.parametrize("number", [6, 9, 15])
def test_signal_that_ends_a_task_is_named(number):
    def end():
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(60)

    with pytest.raises(WorkerCrashedError, match=f"signal {number}"):
        ray.get(once(end))


def test_sys_exit_in_a_task_is_a_crashed_worker():
    with pytest.raises(WorkerCrashedError, match="exit code 3"):
        ray.get(once(sys.exit, 3))
    assert ray.get(works.remote()) == 1


def test_sys_exit_in_an_actor_ends_it():
    actor = Actor.remote()
    with pytest.raises(ActorDiedError, match="exit code 3"):
        ray.get(actor.run.remote(sys.exit, 3))
    with pytest.raises(ActorDiedError, match="exit code 3"):
        ray.get(actor.works.remote())


def test_endless_recursion_is_an_error_of_the_task():
    def recurse(depth):
        return recurse(depth + 1) + 1

    ref = once(recurse, 0)
    with pytest.raises(RecursionError) as info:
        ray.get(ref)
    assert isinstance(info.value, RayTaskError)
    assert "in recurse" in str(info.value)
    assert len(str(info.value)) < 200_000
    assert ray.get(works.remote()) == 1


# Python 3.12 counts the calls of its own C code too, and raises before the stack ends.
STACK_ENDS = (
    (WorkerCrashedError, "SIGSEGV") if sys.version_info < (3, 12) else (RecursionError, "maximum recursion depth")
)


def test_recursion_beyond_the_stack_is_a_crash_with_its_signal():
    def deep():
        sys.setrecursionlimit(10**9)

        class Nest:
            def __repr__(self):
                return repr([self])

        return repr(Nest())

    error, text = STACK_ENDS
    with pytest.raises(error, match=text):
        ray.get(once(deep), timeout=50)
    assert ray.get(works.remote()) == 1


def test_recursion_in_a_value_is_an_error_of_the_task():
    def nest():
        value = []
        for _ in range(100_000):
            value = [value]
        return value

    with pytest.raises(TypeError, match=r"Could not serialize the return value[^$]*excessively deep recursion") as info:
        ray.get(once(nest))
    assert isinstance(info.value, RayTaskError)
    assert ray.get(works.remote()) == 1


def test_result_that_cannot_be_pickled_is_an_error_of_the_task():
    def lock():
        import threading

        return threading.Lock()

    with pytest.raises(TypeError, match="cannot pickle") as info:
        ray.get(once(lock))
    assert isinstance(info.value, RayTaskError)
    actor = Actor.remote()
    with pytest.raises(TypeError, match="cannot pickle"):
        ray.get(actor.run.remote(lock))
    # Neither the worker nor the actor is harmed.
    assert ray.get([actor.works.remote(), works.remote(2)]) == [1, 2]


def test_result_that_fails_only_while_it_is_unpickled_is_an_error_of_the_reader():
    class Trap:
        def __reduce__(self):
            return _spring, ()

    ref = once(Trap)
    for _ in range(2):
        with pytest.raises(RaySystemError, match="System error: sprung") as info:
            ray.get(ref)
        # It names what was raised, and where.
        assert isinstance(info.value.client_exc, RuntimeError)
        assert re.search(
            r"test_crashes\.py\", line \d+, in _spring\n.*\nRuntimeError: sprung", str(info.value), re.DOTALL
        )
    assert ray.get(works.remote()) == 1


def _spring():
    raise RuntimeError("sprung")


@pytest.mark.parametrize("how", ["sys.stdout.close()", "os.close(1)", "sys.stdout = None"])
def test_closed_stdout_harms_nobody_else(how):
    def close():
        exec(how, {"os": os, "sys": sys})
        return os.getpid()

    def speak():
        print("still speaking")
        sys.stdout.flush()
        return os.getpid()

    closed = ray.get(once(close))
    # Streams are mended while the worker has nothing to do.
    time.sleep(0.3)
    spoken = set()
    deadline = time.monotonic() + 20
    while closed not in spoken:
        assert time.monotonic() < deadline, "the worker is gone"
        spoken |= set(ray.get([once(speak) for _ in range(8)]))


def test_print_to_a_closed_stdout_is_an_error_of_that_task_only():
    def close_and_print():
        sys.stdout.close()
        print("nobody hears this")

    with pytest.raises(ValueError, match="closed file"):
        ray.get(once(close_and_print))
    assert ray.get(works.remote()) == 1


def test_endless_output_can_be_cancelled_and_fills_no_disk(drivers):
    # In a program of its own, whose output goes nowhere.
    code = """
    context = ray.init(num_cpus=2)
    folder = os.path.join(context["session_dir"], "logs")
    @ray.remote
    def shout():
        while True:
            print("x" * 10_000)
    @ray.remote
    def works():
        return 1
    ref = shout.remote()
    largest, deadline = 0, time.monotonic() + 5
    while time.monotonic() < deadline:
        # What a file really takes: its older parts are given back.
        largest = max(largest, *(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder)))
        assert ray.get(works.remote()) == 1
    ray.cancel(ref)
    try:
        ray.get(ref, timeout=30)
    except ray.exceptions.TaskCancelledError:
        sys.stderr.write(f"largest {largest}\\n")
    """
    _, err = drivers.run(code, stdout=subprocess.DEVNULL)
    # Of a file 128 MiB are kept as soon as the node looks.
    assert int(err.split("largest ")[1].split()[0]) < 512 * 2**20


def test_one_endless_line_is_cut_into_pieces(drivers):
    code = """
    ray.init(num_cpus=1)
    @ray.remote
    def drone():
        for _ in range(300):
            sys.stdout.write("y" * 10_000)
        return "done"
    assert ray.get(drone.remote()) == "done"
    """
    out, _ = drivers.run(code)
    assert out.count("y") == 3_000_000
    assert all(len(line) < 2**20 + 100 for line in out.splitlines())


def test_result_that_does_not_fit_the_store(no_session):
    ray.init(
        num_cpus=1,
        object_store_memory=32 * 2**20,
        _system_config={"automatic_object_spilling_enabled": False},
    )
    try:
        with pytest.raises(ray.exceptions.ObjectStoreFullError, match="object_store_memory"):
            ray.get(once(bytes, 64 * 2**20))
        with pytest.raises(ray.exceptions.ObjectStoreFullError):
            ray.put(bytes(64 * 2**20))
        assert len(ray.get(once(bytes, 16 * 2**20))) == 16 * 2**20
    finally:
        ray.shutdown()
        ray.init(num_cpus=2)


def test_what_a_crashed_worker_printed_is_kept_where_the_error_says(wait_until):
    def crash(text):
        print(text, flush=True)
        print(f"{text}!", file=sys.stderr, flush=True)
        os._exit(3)

    with pytest.raises(WorkerCrashedError, match="died unexpectedly while executing this task") as info:
        ray.get(once(crash, "last words"))
    ((name, pid),) = re.findall(r"(\S+/logs/crashed-(\d+))\.\*", str(info.value))
    folder = Path(name).parent
    assert f"Its process, {pid}, ended with exit code 3." in str(info.value)

    def read(path):
        # The oldest go while we look.
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        return ""

    def kept(stream, text):
        return [path for path in folder.glob(f"crashed-*.{stream}") if text in read(path)]

    (out,) = wait_until(lambda: kept("out", "last words"))
    assert [out.with_suffix(".err")] == kept("err", "last words!")
    assert out == Path(f"{name}.out"), "the error names the files"
    # Only the latest are kept, however many there are.
    for number in range(12):
        with pytest.raises(WorkerCrashedError, match="exit code 3"):
            ray.get(once(crash, f"crash {number}."))
    wait_until(lambda: kept("out", "crash 11."))
    # The newest is there before the oldest goes.
    for stream in ("out", "err"):
        wait_until(lambda stream=stream: len(list(folder.glob(f"crashed-*.{stream}"))) == 10)
    assert not kept("out", "last words")
    assert not kept("out", "crash 1.")
    with pytest.raises(WorkerCrashedError, match="exit code 0") as info:
        ray.get(once(os._exit, 0))
    assert "crashed-" not in str(info.value), "who prints nothing leaves nothing"
