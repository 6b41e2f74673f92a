"""Errors of tasks that nobody read."""

import contextlib
import gc
import threading

import pytest

import eagleray as ray
from eagleray._private import worker as worker_module

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def fail(number=0):
    raise ValueError(f"failure {number}")


@ray.remote(num_cpus=0)
class Failing:
    def fail(self):
        raise ValueError("failure of a method")


@pytest.fixture
def handled(monkeypatch):
    """What the handler was called with."""
    seen = []
    monkeypatch.setattr(worker_module, "_unhandled_error_handler", seen.append)
    return seen


def settled(ref):
    """Wait until the ref has its error, without reading that."""
    assert ray.wait([ref], timeout=30)[0] == [ref]


def nothing_more(handled, wait_until):
    """An error that is dropped now comes behind all that would have come before it."""
    count = len(handled)
    ref = fail.remote(99)
    settled(ref)
    del ref
    wait_until(lambda: len(handled) > count)
    assert "failure 99" in str(handled.pop())


@pytest.mark.parametrize("make", [lambda: fail.remote(1), lambda: Failing.remote().fail.remote()])
def test_O11a_the_handler_is_called_once_for_an_error_that_is_dropped_unread(make, handled, wait_until):
    ref = make()
    settled(ref)
    assert handled == []
    del ref
    wait_until(lambda: handled)
    assert isinstance(handled[0], ValueError)
    assert isinstance(handled[0], ray.exceptions.RayTaskError)
    nothing_more(handled, wait_until)
    assert len(handled) == 1


def test_O11a_also_if_the_ref_went_before_the_error_came(handled, wait_until, signs):
    @ray.remote
    def late(signs):
        signs.wait("go")
        raise ValueError("late")

    late.remote(signs)
    signs.set("go")
    wait_until(lambda: handled)
    assert "late" in str(handled[0])


def test_O11b_not_if_it_was_got(handled, wait_until):
    ref = fail.remote()
    with contextlib.suppress(ValueError):
        ray.get(ref)
    del ref
    gc.collect()
    nothing_more(handled, wait_until)
    assert handled == []


async def test_O11b_nor_if_it_was_awaited(handled, wait_until):
    ref = fail.remote()
    with pytest.raises(ValueError, match="failure"):
        await ref
    del ref
    gc.collect()
    nothing_more(handled, wait_until)
    assert handled == []


def test_O11b_nor_if_a_task_failed_of_it_whose_own_error_was_read(handled, wait_until):
    first = fail.remote()
    second = fail.remote(first)
    del first
    with pytest.raises(ray.exceptions.RayTaskError, match="failure 0"):
        ray.get(second)
    del second
    gc.collect()
    nothing_more(handled, wait_until)
    assert handled == []


def test_O11b_nor_if_another_process_read_it(handled, wait_until):
    @ray.remote
    def read(refs):
        try:
            ray.get(refs[0])
        except ValueError:
            return "read"

    ref = fail.remote()
    assert ray.get(read.remote([ref])) == "read"
    del ref
    nothing_more(handled, wait_until)
    assert handled == []


@pytest.mark.parametrize("how", ["loop", "next", "completed", "list"])
def test_O11b_nor_the_error_of_a_generator_that_was_caught(handled, wait_until, how):
    # The call's own end holds the same error as the last item; each was told of where the other had been read.
    @ray.remote
    def some():
        yield 1
        raise ValueError("after one")

    generator = some.remote()
    with pytest.raises(ValueError, match="after one"):
        if how == "completed":
            ray.get(generator.completed())
        elif how == "list":
            ray.get(list(generator))
        elif how == "next":
            ray.get(next(generator))
            ray.get(next(generator))
        else:
            for ref in generator:
                ray.get(ref)
                del ref
    del generator
    gc.collect()
    nothing_more(handled, wait_until)
    assert handled == []


def test_O11c_suppressed_by_the_environment(handled, wait_until, monkeypatch):
    monkeypatch.setenv("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    calls = threading.Event()
    report = worker_module.report_unhandled
    monkeypatch.setattr(worker_module, "report_unhandled", lambda error: (report(error), calls.set()))
    ref = fail.remote()
    settled(ref)
    del ref
    assert calls.wait(30)
    assert handled == []


def test_O11d_without_a_handler_it_is_printed_also_for_tasks_that_a_worker_owns(drivers):
    code = """
        ray.init(num_cpus=2)

        @ray.remote
        def fail(whose):
            raise ValueError(f"failure of the {whose}")

        @ray.remote
        def start():
            ref = fail.remote("worker's")
            ray.wait([ref])
            del ref
            time.sleep(1)

        ref = fail.remote("driver's")
        ray.wait([ref])
        del ref
        ray.get(start.remote())
        time.sleep(0.5)
    """
    _, err = drivers.run(code)
    text = "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1')"
    assert err.count(text) == 2
    assert "failure of the worker's" in err
    assert "failure of the driver's" in err
    _, err = drivers.run(code, env={"RAY_IGNORE_UNHANDLED_ERRORS": "1"})
    assert text not in err


def test_O11d_errors_that_are_dropped_at_the_very_end_are_printed(drivers):
    _, err = drivers.run("""
        ray.init(num_cpus=2)

        @ray.remote
        def fail(number):
            raise ValueError(number)

        refs = [fail.remote(number) for number in range(20)]
        ray.wait(refs, num_returns=20)
        del refs
    """)
    assert err.count("Unhandled error") == 20


def test_O11a_a_task_that_returns_very_many_values_says_once_that_it_failed(drivers):
    _, err = drivers.run("""
        ray.init(num_cpus=2)

        @ray.remote(num_returns=2000)
        def fail():
            raise ValueError("failure")

        refs = fail.remote()
        ray.wait(refs, num_returns=2000)
        del refs
        unseen = fail.remote()
        del unseen
        time.sleep(1)
    """)
    assert err.count("Unhandled error") == 2
