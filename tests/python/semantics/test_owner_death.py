"""A process dies that made refs and gave them away: rule R3. What it owned stays readable by everyone who holds it."""

import os
import signal

import numpy as np
import pytest

import eagleray as ray
from eagleray import _native, testing
from eagleray.exceptions import OwnerDiedError, WorkerCrashedError

pytestmark = pytest.mark.two_nodes

MIB = 1 << 20


def array(number, size=MIB):
    return np.full(size, number, dtype=np.uint8)


@ray.remote
def make(signs, number, size):
    signs.set(f"made-{number}")
    return array(number, size) if size else number


@ray.remote
def when(signs, name, go):
    signs.set(name)
    signs.wait(go)
    return name


@ray.remote(max_retries=0)
def once(signs, name, go):
    signs.set(name)
    signs.wait(go)
    return name


@ray.remote(num_cpus=0)
class Owner:
    """Makes refs and gives them away."""

    def pid(self):
        return os.getpid()

    def put(self, count, size):
        return [ray.put(array(number, size) if size else number) for number in range(count)]

    def call(self, function, *args):
        return [function.remote(*args)]

    def make(self, signs, count, size):
        refs = [make.remote(signs, number, size) for number in range(count)]
        ray.wait(refs, num_returns=count)
        return refs

    def wrap(self, refs):
        return [ray.put(list(refs))]

    def chain(self, signs, length):
        ref = make.remote(signs, 1, MIB)
        for _ in range(length):
            ref = plus_one.remote(ref)
        return [ref]

    def ask(self, actor, count):
        return [actor.answer.remote(number) for number in range(count)]

    def pass_on(self, refs):
        return list(refs)


@ray.remote
def plus_one(value):
    return value + np.uint8(1)


@ray.remote(num_cpus=0)
class Slow:
    def __init__(self, signs):
        self.signs = signs

    def answer(self, number):
        self.signs.set(f"asked-{number}")
        self.signs.wait("answer")
        return number * 10


def kill(owner):
    os.kill(ray.get(owner.pid.remote()), signal.SIGKILL)


@pytest.fixture(scope="module", params=[0, MIB], ids=["small", "large"])
def size(request):
    return request.param


def same(value, number, size):
    return (value == array(number, size)).all() if size else value == number


def nothing_left(wait_until):
    """The node's own look at itself, without what the test's handles hold."""
    wait_until(lambda: testing.audit() == [], what=f"an audit without findings: {testing.audit()}")


def test_R3a_values_that_a_dead_process_put_are_read_by_who_holds_them(ray_session, size, wait_until):
    owner = Owner.remote()
    refs = ray.get(owner.put.remote(100, size))
    kill(owner)
    assert all(same(value, number, size) for number, value in enumerate(ray.get(refs, timeout=30)))
    del refs, owner
    nothing_left(wait_until)


def test_R3b_values_of_its_tasks_are_read(ray_session, size, signs, wait_until):
    owner = Owner.remote()
    refs = ray.get(owner.make.remote(signs, 10, size))
    kill(owner)
    assert all(same(value, number, size) for number, value in enumerate(ray.get(refs, timeout=30)))
    assert all(signs.count(f"made-{number}") == 1 for number in range(10))
    del refs, owner
    nothing_left(wait_until)


@pytest.mark.parametrize("function", [when, once], ids=["retries", "no-retries"])
def test_R3c_a_task_that_runs_goes_on_and_runs_once(ray_session, function, signs, wait_until):
    owner = Owner.remote()
    [ref] = ray.get(owner.call.remote(function, signs, "running", "go"))
    signs.wait("running")
    kill(owner)
    assert not ray.wait([ref], timeout=0.5)[0]
    signs.set("go")
    assert ray.get(ref, timeout=30) == "running"
    assert signs.count("running") == 1
    del ref, owner
    nothing_left(wait_until)


def test_R3d_a_task_that_waits_for_a_cpu_is_run(ray_session, signs, wait_until):
    holding = [when.remote(signs, f"holds-{number}", "let-go") for number in range(2)]
    signs.wait("holds-0")
    signs.wait("holds-1")
    owner = Owner.remote()
    [ref] = ray.get(owner.call.remote(once, signs, "late", "let-go"))
    kill(owner)
    signs.set("let-go")
    assert ray.get(ref, timeout=30) == "late"
    assert signs.count("late") == 1
    del ref, owner, holding
    nothing_left(wait_until)


def test_R3e_calls_on_actors_are_answered_started_or_not(ray_session, signs, wait_until):
    slow = Slow.remote(signs)
    owner = Owner.remote()
    refs = ray.get(owner.ask.remote(slow, 5))
    signs.wait("asked-0")
    kill(owner)
    assert not ray.wait(refs, timeout=0.5)[0]
    signs.set("answer")
    assert ray.get(refs, timeout=30) == [0, 10, 20, 30, 40]
    assert all(signs.count(f"asked-{number}") == 1 for number in range(5))
    del refs, owner, slow
    nothing_left(wait_until)


def test_R3f_refs_of_others_inside_its_values_stay_readable(ray_session, size, wait_until):
    owner = Owner.remote()
    inner = [ray.put(array(7, size) if size else 7) for _ in range(3)]
    [outer] = ray.get(owner.wrap.remote(inner))
    del inner
    kill(owner)
    found = ray.get(outer, timeout=30)
    assert all(same(value, 7, size) for value in ray.get(found, timeout=30))
    del found, outer, owner
    nothing_left(wait_until)


def test_R3g_a_process_that_passed_a_ref_on_may_die_as_well(ray_session, size, wait_until):
    first, second = Owner.remote(), Owner.remote()
    refs = ray.get(second.pass_on.remote(ray.get(first.put.remote(5, size))))
    kill(second)
    kill(first)
    assert all(same(value, number, size) for number, value in enumerate(ray.get(refs, timeout=30)))
    del refs, first, second
    nothing_left(wait_until)


def test_R3h_heirs_of_heirs_hold_what_they_name(ray_session, wait_until):
    """Values that name values, each made by a process of its own, die in any order."""
    owners = [Owner.remote() for _ in range(4)]
    [ref] = ray.get(owners[0].put.remote(1, 0))
    for owner in owners[1:]:
        [ref] = ray.get(owner.wrap.remote([ref]))
    for owner in (owners[2], owners[0], owners[3], owners[1]):
        kill(owner)
    for _ in range(3):
        [ref] = ray.get(ref, timeout=30)
    assert ray.get(ref, timeout=30) == 0
    del ref, owners, owner
    nothing_left(wait_until)


def test_R3h_owners_that_die_at_once_hold_what_they_name(ray_session, wait_until):
    """The connection of a killed process was seen to be closed before its death was: it was not asked, and what its values name was let go."""
    for _ in range(20):
        owners = [Owner.remote() for _ in range(4)]
        pids = ray.get([owner.pid.remote() for owner in owners])
        [ref] = ray.get(owners[0].put.remote(1, 0))
        for owner in owners[1:]:
            [ref] = ray.get(owner.wrap.remote([ref]))
        for at in (2, 0, 3, 1):
            os.kill(pids[at], signal.SIGKILL)
        for _ in range(3):
            [ref] = ray.get(ref, timeout=30)
        assert ray.get(ref, timeout=30) == 0
    del ref, owners, owner
    nothing_left(wait_until)


@ray.remote(num_cpus=0)
class Box:
    """Keeps what it is given, and reads it when asked."""

    def __init__(self):
        self.refs = []

    def add(self, refs):
        self.refs += refs
        return len(self.refs)

    def read(self):
        return ray.get(self.refs, timeout=30)

    def names(self):
        return [ref.hex() for ref in self.refs]


@ray.remote(max_retries=1, retry_exceptions=True)
def put_and_end(box, how):
    """Gives away a value that says which run put it; the first run ends badly."""
    run = ray.get(box.add.remote([ray.put(how)]))
    if run == 1 and how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if run == 1:
        raise ValueError(how)
    ray.get(box.add.remote([ray.put((how, run))]))


@pytest.mark.parametrize("how", ["killed", "raised"])
def test_R3h_what_a_task_puts_when_it_runs_again_is_something_else(ray_session, how):
    """Both runs gave their first value the same name, so that whoever held the first one's took it for the second one's."""
    box = Box.remote()
    ray.get(put_and_end.remote(box, how))
    assert ray.get(box.read.remote()) == [how, how, (how, 2)]
    assert len(set(ray.get(box.names.remote()))) == 3


@pytest.mark.one_node("loses files of the session whose folder it knows")
def test_R3i_what_is_lost_later_is_made_again(no_session, tmp_path, signs):
    folder = tmp_path / "disk"
    folder.mkdir()
    ray.init(num_cpus=2, object_store_memory=80 * MIB, object_spilling_directory=str(folder))
    owner = Owner.remote()
    [ref] = ray.get(owner.chain.remote(signs, 3))
    ray.wait([ref])
    kill(owner)
    assert ray.get(ref, timeout=30)[0] == 4
    filling = [ray.put(array(0, 4 * MIB)) for _ in range(40)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.unlink()
    assert ray.get(ref, timeout=30)[0] == 4
    assert signs.count("made-1") == 2
    del ref, owner, filling


@pytest.mark.one_node("kills processes that it finds on its own node")
def test_R3j_two_deaths_at_once_end_in_a_value_or_a_typed_error(ray_session, signs):
    owner = Owner.remote()
    retried, single = (
        ray.get(owner.call.remote(function, signs, name, "go"))[0]
        for function, name in ((when, "may-run-again"), (once, "may-not"))
    )
    signs.wait("may-run-again")
    signs.wait("may-not")
    workers = [pid for pid, role, _ in _native.status()["processes"] if role in ("when", "once")]
    assert len(workers) == 2
    for pid in [*workers, ray.get(owner.pid.remote())]:
        os.kill(pid, signal.SIGKILL)
    signs.set("go")
    assert ray.get(retried, timeout=30) == "may-run-again"
    # Whichever death is heard of first.
    with pytest.raises((OwnerDiedError, WorkerCrashedError), match="Its owner has died|signal 9"):
        ray.get(single, timeout=30)


def test_R3l_what_a_task_of_its_used_is_free_once_it_has_answered(ray_session, signs, wait_until):
    """The worker lives on for the large value that it made, but holds no CPU."""
    owner = Owner.remote()
    [ref] = ray.get(owner.call.remote(make, signs, 1, 4 * MIB))
    [running] = ray.get(owner.call.remote(when, signs, "running", "go"))
    signs.wait("running")
    kill(owner)
    signs.set("go")
    assert ray.get(running, timeout=30) == "running"
    assert ray.get(ref, timeout=30)[0] == 1
    wait_until(lambda: ray.available_resources().get("CPU") == 2, what="both CPUs to be free")
    assert ray.get(ref, timeout=30)[0] == 1


DAEMON = """
import numpy as np
ray.init(address="auto", namespace="space")

@ray.remote(num_cpus=0)
class Store:
    def keep(self, refs):
        self.refs = refs
    def read(self):
        return [int(np.asarray(value).flat[0]) for value in ray.get(self.refs, timeout=30)]

@ray.remote
def slow(number):
    time.sleep(1.0)
    return np.full(300_000, number, dtype=np.uint8)

if sys.argv[1] == "make":
    store = Store.options(name="store", lifetime="detached").remote()
    # Two CPUs: one of these has not begun when the driver ends.
    refs = [ray.put(1), ray.put(np.full(1 << 20, 2, dtype=np.uint8)), *(slow.remote(number) for number in (3, 4, 5))]
    ray.get(store.keep.remote(refs))
    print("kept", flush=True)
    os.kill(os.getpid(), 9) if sys.argv[2] == "kill" else None
else:
    print(ray.get(ray.get_actor("store").read.remote()), flush=True)
"""


@pytest.mark.parametrize("how", ["kill", "leave"])
def test_R3k_a_detached_actor_reads_what_a_driver_left_it(drivers, how):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    maker = drivers.start(DAEMON, "make", how)
    maker.hear_until("kept")
    maker.process.wait(timeout=30)
    out, _ = drivers.run(DAEMON, "read")
    assert "[1, 2, 3, 4, 5]" in out
