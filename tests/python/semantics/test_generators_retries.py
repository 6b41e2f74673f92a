"""Generators that are tried again (G4), and how far they run ahead of who reads them (G6)."""

import os
import signal
import time

import pytest

import eagleray as ray
from eagleray.exceptions import (
    ActorUnavailableError,
    StreamingGeneratorReplayInconsistentError,
    WorkerCrashedError,
)

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


def values(generator):
    return [ray.get(ref, timeout=30) for ref in generator]


@ray.remote(max_retries=2)
def dies_at(signs, at, runs, number):
    """Its first so many runs die after so many values."""
    signs.set("run")
    for index in range(number):
        if index == at and signs.count("run") <= runs:
            # What was yielded is in the caller's ring by now.
            os._exit(1)
        yield index


@pytest.mark.parametrize("at", [0, 1, 500])
def test_G4a_after_a_crash_each_index_is_seen_once(signs, at):
    generator = dies_at.remote(signs, at, 2, 1_000)
    assert values(generator) == list(range(1_000))
    assert signs.count("run") == 3


def test_G4a_of_bounded_generators_too(signs):
    generator = dies_at.options(_generator_backpressure_num_objects=2).remote(signs, 50, 2, 100)
    assert values(generator) == list(range(100))
    assert signs.count("run") == 3


def test_G4a_large_values_are_seen_once(signs):
    @ray.remote(max_retries=1)
    def blocks(signs):
        signs.set("run")
        for index in range(6):
            if index == 3 and signs.count("run") == 1:
                os._exit(1)
            yield bytes([index]) * 300_000

    assert [ray.get(ref, timeout=30)[:1] for ref in blocks.remote(signs)] == [bytes([index]) for index in range(6)]


def test_G4a_a_dynamic_generator_runs_anew(signs):
    ref = dies_at.options(num_returns="dynamic").remote(signs, 3, 1, 5)
    assert [ray.get(item) for item in ray.get(ref, timeout=30)] == [0, 1, 2, 3, 4]
    assert signs.count("run") == 2


@ray.remote(max_retries=2, retry_exceptions=[ValueError])
def raises_at(signs, at, runs, number, error):
    signs.set("run")
    for index in range(number):
        if index == at and signs.count("run") <= runs:
            raise error
        yield index


def test_G4b_after_an_exception_worth_it_each_index_is_seen_once(signs):
    assert values(raises_at.remote(signs, 3, 2, 6, ValueError("again"))) == list(range(6))
    assert signs.count("run") == 3


def test_G4b_another_exception_is_delivered(signs):
    *good, failing = raises_at.remote(signs, 3, 2, 6, KeyError("no"))
    assert ray.get(good) == [0, 1, 2]
    with pytest.raises(KeyError):
        ray.get(failing)
    assert signs.count("run") == 1


@pytest.mark.parametrize("returns", [4, "dynamic"])
def test_G4b_whatever_becomes_of_the_values(signs, returns):
    made = raises_at.options(num_returns=returns).remote(signs, 2, 2, 4, ValueError("again"))
    refs = list(ray.get(made, timeout=30)) if returns == "dynamic" else made
    assert ray.get(refs, timeout=30) == [0, 1, 2, 3]
    assert signs.count("run") == 3


@pytest.mark.parametrize("returns", [4, "dynamic"])
def test_G4b_without_a_retry_left_what_came_before_stays_good(signs, returns):
    made = raises_at.options(num_returns=returns).remote(signs, 2, 9, 4, ValueError("always"))
    refs = list(ray.get(made, timeout=30)) if returns == "dynamic" else made
    assert ray.get(refs[:2], timeout=30) == [0, 1]
    with pytest.raises(ValueError, match="always"):
        ray.get(refs[2], timeout=30)
    assert signs.count("run") == 3


def test_G4c_runs_are_counted(signs):
    *good, failing = dies_at.remote(signs, 2, 9, 5)
    assert ray.get(good) == [0, 1]
    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(failing)
    assert signs.count("run") == 3


def test_G4c_runs_that_raise_are_counted(signs):
    *good, failing = raises_at.remote(signs, 2, 9, 5, ValueError("always"))
    assert ray.get(good) == [0, 1]
    with pytest.raises(ValueError, match="always"):
        ray.get(failing)
    assert signs.count("run") == 3


class Dies:
    """Dies while it yields, in its first lives."""

    def count(self, signs, at, runs, number):
        signs.set("run")
        for index in range(number):
            if index == at and signs.count("run") <= runs:
                os._exit(1)
            yield index


class DiesAsync:
    """As `Dies`, on an event loop."""

    async def count(self, signs, at, runs, number):
        signs.set("run")
        for index in range(number):
            if index == at and signs.count("run") <= runs:
                os._exit(1)
            yield index


@pytest.mark.parametrize("cls", [Dies, DiesAsync])
def test_G4d_a_restarted_actor_yields_anew(signs, cls):
    actor = ray.remote(cls).options(max_restarts=2, max_task_retries=2).remote()
    assert values(actor.count.remote(signs, 5, 2, 10)) == list(range(10))
    assert signs.count("run") == 3


def test_G4d_without_retries_the_death_is_one_failing_ref(signs):
    actor = ray.remote(Dies).options(max_restarts=2).remote()
    *good, failing = actor.count.remote(signs, 2, 1, 10)
    assert ray.get(good) == [0, 1]
    with pytest.raises(ActorUnavailableError, match="The actor is restarting") as info:
        ray.get(failing)
    assert isinstance(info.value, ActorUnavailableError)


def test_G4e_a_run_that_yields_less_is_no_success(signs):
    @ray.remote(max_retries=1)
    def shrinks(signs):
        signs.set("run")
        if signs.count("run") > 1:
            yield 0
            return
        yield from range(3)
        signs.wait("read")
        os._exit(1)

    generator = shrinks.remote(signs)
    assert [ray.get(next(generator), timeout=30) for _ in range(3)] == [0, 1, 2]
    signs.set("read")
    failing = next(generator)
    with pytest.raises(StreamingGeneratorReplayInconsistentError, match="produced 1 objects, expected 3"):
        ray.get(failing, timeout=30)
    with pytest.raises(StopIteration):
        next(generator)


def _yield_with_signs(signs, number, name=""):
    for index in range(number):
        signs.set(f"{name}yielded")
        yield index
    signs.set(f"{name}ended")


class Bounded:
    """Says how far it is, one way or the other."""

    def plain(self, signs, number):
        yield from _yield_with_signs(signs, number)


class BoundedAsync:
    """As `Bounded`, on an event loop."""

    async def plain(self, signs, number):
        for index in _yield_with_signs(signs, number):
            yield index


def bounded(kind, ahead):
    if kind == "task":
        return ray.remote(_generator_backpressure_num_objects=ahead)(_yield_with_signs)
    cls = BoundedAsync if kind == "async" else Bounded
    actor = ray.remote(cls).options(**({"max_concurrency": 3} if kind == "threaded" else {})).remote()
    return actor.plain.options(_generator_backpressure_num_objects=ahead)


def stays(signs, number):
    """It gets that far, and no further."""
    deadline = time.monotonic() + 30
    while signs.count("yielded") < number:
        assert time.monotonic() < deadline, f"{signs.count('yielded')} of {number}"
        time.sleep(0.002)
    time.sleep(0.05)
    return signs.count("yielded") == number


@pytest.mark.parametrize("kind", ["task", "actor", "threaded", "async"])
@pytest.mark.parametrize("ahead", [1, 3])
def test_G6a_it_is_at_most_so_many_values_ahead(signs, kind, ahead):
    generator = bounded(kind, ahead).remote(signs, 8)
    refs = []
    for read in range(5):
        assert stays(signs, ahead + read)
        refs.append(next(generator))
    refs += generator
    assert ray.get(refs) == list(range(8))
    assert signs.count("ended") == 1


def test_G6a_a_method_s_own_bound_is_kept_by_its_other_options(signs):
    @ray.remote
    class Decorated:
        @ray.method(_generator_backpressure_num_objects=2)
        def count(self, signs, number):
            yield from _yield_with_signs(signs, number)

    generator = Decorated.remote().count.options(name="other", num_returns="streaming").remote(signs, 6)
    assert stays(signs, 2)
    assert values(generator) == list(range(6))


def test_G6a_without_a_bound_it_runs_ahead(signs):
    generator = ray.remote(_generator_backpressure_num_objects=-1)(_yield_with_signs).remote(signs, 5_000)
    signs.wait("ended")
    assert values(generator) == list(range(5_000))


def test_G6a_two_generators_side_by_side_do_not_wait_for_each_other(signs):
    make = ray.remote(_generator_backpressure_num_objects=1, num_cpus=2)(_yield_with_signs)
    # Each takes both CPUs; the one that waits lends them out.
    first, second = make.remote(signs, 20, "first"), make.remote(signs, 20, "second")
    pairs = [(ray.get(one), ray.get(two)) for one, two in zip(first, second, strict=True)]
    assert pairs == [(index, index) for index in range(20)]


def test_G6b_get_counts_for_nothing(signs):
    generator = bounded("task", 2).remote(signs, 5)
    ref = next(generator)
    for _ in range(3):
        assert ray.get(ref) == 0
    assert stays(signs, 3)
    assert not ray.wait([generator.completed()], timeout=0)[0]
    assert ray.wait([generator], timeout=30)[0] == [generator]
    assert stays(signs, 3)
    assert values(generator) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["task", "actor", "threaded", "async"])
def test_G6c_a_dropped_stream_lets_its_generator_run_to_its_end(signs, kind):
    generator = bounded(kind, 1).remote(signs, 50)
    next(generator)
    del generator
    signs.wait("ended")
    assert signs.count("yielded") == 50


def test_G6c_one_that_was_never_read_too(signs):
    bounded("task", 1).remote(signs, 50)
    signs.wait("ended")


def _yield_with_closing_sign(signs, number):
    try:
        for index in range(number):
            signs.set("yielded")
            yield index, os.getpid()
        signs.set("ended")
    finally:
        signs.set("closed")


class Yields:
    """Serves generators to callers that die."""

    def count(self, signs, number):
        yield from _yield_with_closing_sign(signs, number)

    def works(self):
        return True


class YieldsAsync:
    """As `Yields`, on an event loop."""

    async def count(self, signs, number):
        for item in _yield_with_closing_sign(signs, number):
            yield item

    async def works(self):
        return True


@ray.remote
class Caller:
    """Calls a generator, reads a little of it, and ends."""

    def __init__(self):
        self.generator = None

    def begin(self, signs, number, actor=None):
        make = ray.remote(max_retries=0)(_yield_with_closing_sign) if actor is None else actor.count
        self.generator = make.options(_generator_backpressure_num_objects=1).remote(signs, number)
        return ray.get(next(self.generator))[1]

    def leave(self):
        ray.actor.exit_actor()

    def pid(self):
        return os.getpid()


def test_G6d_the_generator_of_a_task_that_returns_runs_to_its_end(signs):
    @ray.remote
    def begins(signs):
        generator = ray.remote(_generator_backpressure_num_objects=1)(_yield_with_signs).remote(signs, 10)
        return ray.get(next(generator))

    assert ray.get(begins.remote(signs), timeout=30) == 0
    signs.wait("ended")
    assert signs.count("yielded") == 10


@pytest.mark.parametrize("cls", [Yields, YieldsAsync])
def test_G6d_the_generator_of_an_actor_that_exits_runs_to_its_end(signs, cls):
    actor, caller = ray.remote(cls).remote(), Caller.remote()
    ray.get(caller.begin.remote(signs, 10, actor), timeout=30)
    assert stays(signs, 2)
    caller.leave.remote()
    signs.wait("ended")
    assert signs.count("yielded") == 10
    assert ray.get(actor.works.remote(), timeout=30)


@pytest.mark.parametrize("cls", [Yields, YieldsAsync])
@pytest.mark.parametrize("is_killed_by_name", [False, True])
def test_G6e_the_method_of_a_caller_that_is_killed_ends(signs, cls, is_killed_by_name):
    actor, caller = ray.remote(cls).remote(), Caller.remote()
    ray.get(caller.begin.remote(signs, 10, actor), timeout=30)
    assert stays(signs, 2)
    if is_killed_by_name:
        ray.kill(caller)
    else:
        os.kill(ray.get(caller.pid.remote()), signal.SIGKILL)
    signs.wait("closed")
    assert (signs.count("ended"), signs.count("yielded")) == (0, 2)
    assert ray.get(actor.works.remote(), timeout=30)


def test_G6e_the_worker_of_a_caller_that_is_killed_ends(signs, leaks):
    caller = Caller.remote()
    worker = ray.get(caller.begin.remote(signs, 10), timeout=30)
    assert stays(signs, 2)
    ray.kill(caller)
    leaks.check([worker])
    assert signs.count("ended") == 0


def test_G6f_a_bound_of_zero_is_refused():
    with pytest.raises(ValueError, match="is not allowed"):
        ray.remote(_generator_backpressure_num_objects=0)(_yield_with_signs)


def test_G6g_a_sigterm_ends_a_worker_whose_generator_waits(signs):
    @ray.remote(_generator_backpressure_num_objects=1, max_retries=0)
    def endless():
        while True:
            yield os.getpid()

    generator = endless.remote()
    pid = ray.get(next(generator), timeout=30)
    time.sleep(0.05)
    os.kill(pid, signal.SIGTERM)
    refs = list(generator)
    assert ray.get(refs[:-1]) == [pid] * (len(refs) - 1)
    with pytest.raises(WorkerCrashedError, match="exit code 15"):
        ray.get(refs[-1], timeout=30)
