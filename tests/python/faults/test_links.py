"""Rings between two processes are taken back when nothing moves on them, and given to whoever needs some."""

import contextlib
import os
import random
import threading
import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError


@ray.remote(num_cpus=0, max_concurrency=4)
class Counter:
    """Counts its calls by caller; calls others."""

    def __init__(self):
        self.seen = {}
        self.lock = threading.Lock()

    def count(self, caller):
        with self.lock:
            self.seen[caller] = self.seen.get(caller, 0) + 1
            return self.seen[caller]

    def visit(self, me, others, times, pause=0.0):
        """Each of the others in turn, so that no two links need be open at once. What they counted."""
        counts = []
        for _ in range(times):
            counts.append(ray.get([other.count.remote(me) for other in others[:1]]))
            for other in others[1:]:
                counts[-1] += ray.get([other.count.remote(me)])
            time.sleep(pause * random.random())
        return counts

    def pid(self):
        return os.getpid()

    def sleep(self, seconds):
        time.sleep(seconds)

    def wait_in(self, other, seconds):
        ray.get(other.sleep.remote(seconds))


@ray.remote
def plus_one(value):
    return value + 1


@pytest.fixture
def session(monkeypatch):
    """Starts a session with so many rings and so much patience with idle links."""

    def start(*, rings=16 * 1024, idle_ms=60_000):
        monkeypatch.setenv("EAGLERAY_RINGS_MAX", str(rings))
        monkeypatch.setenv("EAGLERAY_LINK_IDLE_MS_MAX", str(idle_ms))
        return ray.init(num_cpus=2)

    ray.shutdown()
    yield start
    ray.shutdown()


def ring_bytes():
    """What the segment with the rings takes of the machine's memory. The node, and so a descriptor of it, is in this process."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if "eagleray-segment" in os.readlink(entry):
                return entry.stat().st_blocks * 512
        except OSError:
            continue
    raise AssertionError("no segment")


# Beyond the limit a pair of processes waited until some process died.
@pytest.mark.parametrize("pairs", [2, 3, 5])
def test_more_pairs_than_rings_take_turns(session, pairs):
    session(rings=2 * pairs)
    actors = [Counter.remote() for _ in range(8)]
    for turn in range(1, 6):
        assert ray.get([actor.count.remote("driver") for actor in actors], timeout=40) == [turn] * 8
        assert ray.get([plus_one.remote(value) for value in range(50)], timeout=40) == list(range(1, 51))
    for at, actor in enumerate(actors):
        others = actors[:at] + actors[at + 1 :]
        assert ray.get(actor.visit.remote(at, others, 3), timeout=40) == [[turn] * 7 for turn in (1, 2, 3)]
    assert ray.get([actor.count.remote("driver") for actor in actors], timeout=40) == [6] * 8


def test_order_of_calls_holds_while_links_come_and_go(session):
    session(rings=4, idle_ms=1)
    actors = [Counter.options(max_concurrency=1).remote() for _ in range(5)]
    expected, got = [0] * 5, []
    chance = random.Random(1)
    refs = []
    for _ in range(2_000):
        at = chance.randrange(5)
        expected[at] += 1
        refs.append(actors[at].count.remote("driver"))
        got.append(expected[at])
        if chance.random() < 0.05:
            time.sleep(0.004 * chance.random())
    assert ray.get(refs, timeout=40) == got


def test_calls_of_both_sides_cross_the_closing_of_their_link(session):
    # Pauses are as long as links may be idle: most questions meet a call under way.
    session(idle_ms=2)
    actors = [Counter.remote() for _ in range(3)]
    visits = [actor.visit.remote(at, actors[:at] + actors[at + 1 :], 150, 0.006) for at, actor in enumerate(actors)]
    for turn in range(1, 151):
        assert ray.get([actor.count.remote("driver") for actor in actors], timeout=40) == [turn] * 3
        time.sleep(0.005 * random.random())
    assert ray.get(visits, timeout=40) == [[[turn] * 2 for turn in range(1, 151)]] * 3


def test_call_made_while_the_other_side_refuses_to_close_goes_out(session):
    session(idle_ms=1)
    waiter, caller = Counter.remote(), Counter.remote()
    ray.get([waiter.pid.remote(), caller.pid.remote()], timeout=40)
    # While this call is under way its link stays: one side says so, the other holds its calls back until it is told.
    wait = waiter.wait_in.remote(caller, 3.0)
    counts = ray.get(caller.visit.remote("caller", [waiter], 800, 0.003), timeout=40)
    assert counts == [[turn] for turn in range(1, 801)]
    ray.get(wait, timeout=40)


def test_memory_of_idle_links_is_given_back(session, wait_until):
    session(idle_ms=1_000)
    actors = [Counter.remote() for _ in range(6)]
    ray.get([actor.pid.remote() for actor in actors], timeout=40)
    text = "x" * 3_000
    ray.get([actor.count.remote(text) for actor in actors for _ in range(30)], timeout=40)
    # Each of the six rings to the actors is written through once.
    used = ring_bytes()
    assert used > 6 * 64 * 1024
    wait_until(lambda: ring_bytes() < used - 6 * 60 * 1024, what="memory of rings")
    assert ray.get([actor.count.remote(text) for actor in actors], timeout=40) == [31] * 6


def test_call_taken_back_before_it_has_a_link_ends(session):
    session(rings=2)
    slow, other = Counter.remote(), Counter.remote()
    ray.get(slow.pid.remote(), timeout=40)
    # The only rings are in use until the visit ends.
    visit = slow.visit.remote(0, [], 1, 2.0)
    waiting = other.count.remote("driver")
    cancelled = other.count.remote("driver")
    ray.cancel(cancelled)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(cancelled, timeout=40)
    assert ray.get([visit, waiting], timeout=40)[1] == 1


# The smaller number is one that some calls have to wait for, but never for each other.
@pytest.mark.parametrize("rings", [24, 16 * 1024])
def test_death_of_either_side_while_links_come_and_go(session, rings):
    session(rings=rings, idle_ms=1)
    actors = [Counter.options(max_restarts=-1, max_task_retries=-1).remote() for _ in range(4)]
    chance = random.Random(rings)
    start = time.monotonic()
    kills = 0
    # For as long as it takes to mean something, on a slow machine too.
    while time.monotonic() < start + 6 or kills < 6:
        assert time.monotonic() < start + 120
        refs = [
            actor.visit.remote(at, [actors[at - chance.randrange(1, 4)]], 2, 0.003) for at, actor in enumerate(actors)
        ]
        refs += [plus_one.remote(1) for _ in range(10)]
        time.sleep(0.01 * chance.random())
        if chance.random() < 0.3:
            with contextlib.suppress(ProcessLookupError):
                os.kill(ray.get(actors[chance.randrange(4)].pid.remote(), timeout=40), 9)
                kills += 1
        # Whatever a death broke off was tried again.
        visits, sums = refs[:4], refs[4:]
        assert all(len(visit) == 2 for visit in ray.get(visits, timeout=40))
        assert ray.get(sums, timeout=40) == [2] * 10
    assert ray.get([plus_one.remote(1) for _ in range(100)], timeout=40) == [2] * 100
    assert all(pid > 0 for pid in ray.get([actor.pid.remote() for actor in actors], timeout=40))


def test_actor_that_dies_while_nobody_has_a_link_to_it_is_missed(session, wait_until):
    session(idle_ms=20)
    actor = Counter.remote()
    pid = ray.get(actor.pid.remote(), timeout=40)
    before = ring_bytes()
    wait_until(lambda: ring_bytes() < before, what="memory of rings")
    os.kill(pid, 9)
    with pytest.raises(ActorDiedError, match="signal 9"):
        ray.get(actor.count.remote("driver"), timeout=40)
