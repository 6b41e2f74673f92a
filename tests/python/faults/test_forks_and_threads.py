"""Forks, threads and signals in user code. Whatever a task does to its own process, the others do not notice."""

import os
import signal
import sys
import threading
import time

import pytest

import eagleray as ray
from eagleray.exceptions import RayTaskError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def works(value=1):
    return value


@ray.remote(max_retries=0)
def run(function, *args):
    return function(*args)


@ray.remote(num_cpus=0)
class Actor:
    def run(self, function, *args):
        return function(*args)

    def pid(self):
        return os.getpid()


@ray.remote(num_cpus=0, max_concurrency=2)
class ThreadedActor(Actor._cls):
    pass


def everyone_works():
    return ray.get([works.remote(number) for number in range(50)], timeout=40) == list(range(50))


def fork_and(path, leave):
    """Leaves the task twice: the parent returns, the child does as told. What became of the child goes into a file."""
    child = os.fork()
    if child == 0:
        return leave()

    def watch():
        with open(path + ".new", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        os.rename(path + ".new", path)

    threading.Thread(target=watch).start()
    return "parent"


def returns():
    return "child"


def raises():
    raise ValueError("only in the child")


def exits():
    sys.exit(5)


# The child came back into the worker's loop, touched memory that is not there after a fork, and printed a segfault as the worker's own.
@pytest.mark.parametrize(("leave", "code"), [(returns, "0"), (raises, "1"), (exits, "5")])
@pytest.mark.parametrize("where", ["task", "actor", "threaded actor"])
def test_forked_child_that_comes_back_from_the_users_code_just_ends(tmp_path, wait_until, where, leave, code):
    path = tmp_path / "code"
    actor = {"task": Actor, "actor": Actor, "threaded actor": ThreadedActor}[where].remote()
    pid = ray.get(actor.pid.remote())
    call = run.remote if where == "task" else actor.run.remote
    assert ray.get(call(fork_and, str(path), leave), timeout=40) == "parent"
    wait_until(path.exists)
    assert path.read_text() == code
    assert ray.get(actor.pid.remote(), timeout=40) == pid
    assert everyone_works()


def test_thread_that_outlives_its_task_may_go_on_using_the_api(tmp_path, wait_until):
    path = tmp_path / "done"

    def start():
        def work():
            total = sum(ray.get([works.remote(number) for number in range(20)]))
            path.write_text(str(total + ray.get(ray.put(1))))

        threading.Thread(target=work).start()
        return "started"

    assert ray.get(run.remote(start), timeout=40) == "started"
    wait_until(path.exists)
    wait_until(lambda: path.read_text() == "191")
    assert everyone_works()


def test_exception_in_a_thread_of_a_task_is_not_the_tasks():
    def start():
        thread = threading.Thread(target=raises)
        thread.start()
        thread.join()
        return "fine"

    assert ray.get(run.remote(start), timeout=40) == "fine"
    assert everyone_works()


def test_threads_of_the_driver_share_its_session():
    results = []

    def use(number):
        actor = Actor.remote()
        results.append(ray.get([works.remote(number), actor.run.remote(abs, -number)], timeout=40) == [number, number])

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert results == [True] * 8


def test_blocked_signals_do_not_keep_a_task_from_being_cancelled_by_force():
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
        time.sleep(600)

    ref = run.remote(block)
    assert ray.wait([ref], timeout=0.3)[0] == []
    ray.cancel(ref, force=True)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=40)
    assert everyone_works()


def test_alarm_that_nobody_handles_is_named():
    def alarm():
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        time.sleep(600)

    with pytest.raises(WorkerCrashedError, match="SIGALRM"):
        ray.get(run.remote(alarm), timeout=40)
    assert everyone_works()


def test_task_beyond_its_own_memory_limit_is_that_tasks_error():
    import resource

    def grow():
        resource.setrlimit(resource.RLIMIT_AS, (2**31, resource.RLIM_INFINITY))
        try:
            return len(bytearray(2**40))
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with pytest.raises(MemoryError) as info:
        ray.get(run.remote(grow), timeout=40)
    assert isinstance(info.value, RayTaskError)
    assert everyone_works()


def test_task_that_empties_its_own_interpreter_harms_no_other_process():
    def empty():
        os.environ.clear()
        sys.path.clear()
        os.chdir("/")
        return "empty"

    assert ray.get(run.remote(empty), timeout=40) == "empty"
    assert everyone_works()
