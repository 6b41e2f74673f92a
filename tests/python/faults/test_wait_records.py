"""Why does it hang? Whatever has waited for a second is a record that `eagleray status -v` prints."""

import os
import re
import threading
import time

import pytest

import eagleray as ray
from eagleray import _native


@pytest.fixture
def gate(tmp_path, ray_session):
    return tmp_path / "gate"


@ray.remote(num_cpus=0)
def hold(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"


@ray.remote(num_cpus=0)
def wait_for(refs, how="get"):
    return ray.get(refs[0]) if how == "get" else ray.wait(refs)


def records(pid=None):
    """(who, what, milliseconds) of all processes, or of one."""
    return [wait for one, _, waits in _native.status()["processes"] for wait in waits if pid in (None, one)]


def test_blocked_get_of_a_driver_is_told_with_what_it_waits_for(gate, wait_until):
    ref = hold.remote(str(gate))
    thread = threading.Thread(target=ray.get, args=(ref,))
    thread.start()

    def told():
        return [one for one in records(os.getpid()) if one[0] == "get"]

    ((_, what, waited_ms),) = wait_until(told)
    assert ref.hex() in what
    assert "task hold" in what
    assert waited_ms >= 1000
    # The time goes on without anybody saying so again.
    wait_until(lambda: told()[0][2] >= waited_ms + 500)
    gate.touch()
    thread.join()
    wait_until(lambda: not told(), what="the record goes with the wait")


def test_blocked_wait_inside_a_task_is_told(gate, wait_until):
    inner = hold.remote(str(gate))
    outer = [wait_for.remote([inner], how) for how in ("get", "wait")]
    found = wait_until(lambda: [w for w in records() if w[0] in ("get", "wait") and inner.hex() in w[1]][1:])
    assert found
    whos = {one[0] for one in records() if inner.hex() in one[1]}
    assert {"get", "wait"} <= whos
    assert f"owned by process {os.getpid()}" in found[0][1]
    gate.touch()
    ray.get(outer)
    wait_until(lambda: not [one for one in records() if one[0] in ("get", "wait")])


def test_pending_tasks_are_told_by_what_they_wait_for(gate, wait_until):
    @ray.remote(num_cpus=0)
    def use(value):
        return value

    @ray.remote(num_cpus=1)
    def small():
        return "small"

    @ray.remote(num_cpus=2)
    def occupy(path):
        while not os.path.exists(path):
            time.sleep(0.01)

    running = occupy.remote(str(gate))
    slow = hold.remote(str(gate))
    waiting = [use.remote(slow) for _ in range(3)]
    queued = small.remote()
    wait_until(lambda: len({one[0] for one in records(os.getpid())}) >= 4)
    told = {one[0]: one[1] for one in records(os.getpid())}
    assert re.search(r"its end in process \d+", told["task hold"])
    assert slow.hex() in told["3 tasks use"]
    assert "task hold" in told["3 tasks use"]
    assert told["task small"] == "a worker"
    # The node says why there is none.
    lease = [one for one in _native.status()["waiting"] if "task small" in one[0]]
    assert lease
    assert "CPU: 1" in lease[0][1]
    gate.touch()
    assert ray.get([*waiting, queued]) == ["done"] * 3 + ["small"]
    ray.get(running)
    wait_until(lambda: not records(os.getpid()), what="no record is left")


def test_call_on_a_busy_actor_and_on_one_that_cannot_be_placed_is_told(gate, wait_until):
    @ray.remote
    class Actor:
        def hold(self, path):
            while not os.path.exists(path):
                time.sleep(0.01)

    busy, impossible = Actor.remote(), Actor.options(num_gpus=3).remote()
    refs = [busy.hold.remote(str(gate)), busy.hold.remote(str(gate)), impossible.hold.remote(str(gate))]
    wait_until(lambda: len([one for one in records(os.getpid()) if "Actor.hold" in one[0]]) >= 3)
    texts = [one[1] for one in records(os.getpid())]
    assert any(text.startswith(f"its end on actor {busy._actor_id.hex()} in process") for text in texts)
    assert any(text.startswith(f"its turn on actor {busy._actor_id.hex()} in process") for text in texts)
    assert any(impossible._actor_id.hex() in text and "not there yet" in text for text in texts)
    gate.touch()
    ray.get(refs[:2])


def test_status_command_prints_who_waits_for_what_and_since_when(drivers, tmp_path):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    gate = tmp_path / "gate"
    code = """
    ray.init(address="auto")
    @ray.remote
    def stuck(path):
        while not os.path.exists(path):
            time.sleep(0.01)
    print("pid", os.getpid())
    ray.get(stuck.remote(sys.argv[1]))
    """
    driver = drivers.start(code, gate)
    driver.hear_until("pid")
    deadline = time.monotonic() + 20
    while True:
        shown = drivers.command("status", "-v").stdout
        found = re.search(r"get waits for 1 of 1: (\w+) of task stuck.*, (\d+\.\d) s", shown)
        if found:
            break
        assert time.monotonic() < deadline, shown
    assert float(found[2]) >= 1.0
    # Without -v the page stays short.
    assert "waits for" not in drivers.command("status").stdout
    gate.touch()
    assert driver.end()[0] == 0


def test_whoever_subscribes_is_told_what_waits_at_once_and_when_it_changes(gate, wait_until):
    watch = _native.WaitWatch(ray.get_runtime_context().gcs_address)
    assert watch.next() is not None, "the first answer comes at once"
    refs = [hold.remote(str(gate)), hold.options(num_gpus=3).remote(str(gate))]
    seen = []

    def has_seen(what):
        found = watch.next()
        seen.append(found)
        return found is not None and what(*found)

    def are_told(processes, node):
        tasks = [one for one in processes.get(os.getpid(), []) if "hold" in one[0]]
        return tasks and any("for a node that has enough" in one[1] for one in node)

    wait_until(lambda: has_seen(are_told), what="the task and the lease that wait")
    gate.touch()
    ray.cancel(refs[1])
    wait_until(lambda: has_seen(lambda processes, node: not processes and not node), what="that nothing waits any more")
    assert len([one for one in seen if one]) < 20, "it is told what has changed, not again and again"


def test_status_watch_shows_what_waits_until_the_node_ends(drivers, tmp_path):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    driver = drivers.start("""
    ray.init(address="auto")
    @ray.remote(num_gpus=7)
    def impossible():
        pass
    ref = impossible.remote()
    print("asked")
    time.sleep(600)
    """)
    driver.hear_until("asked")
    watch = drivers.start("""
    from eagleray._cli.main import main
    main(["status", "--watch"])
    """)
    assert "for a node that has enough to get" in watch.hear_until("  task impossible of process")
    assert drivers.command("stop").returncode == 0
    code, out, err = watch.end()
    assert (code, err) == (0, "")
    assert "The node has ended." in out


def test_a_get_that_times_out_says_what_it_waited_for(gate):
    warm = gate.with_name("warm")
    warm.touch()
    # There is a worker: without one that would be what it waits for.
    assert ray.get(hold.remote(str(warm))) == "done"
    ref = hold.remote(str(gate))
    with pytest.raises(ray.exceptions.GetTimeoutError) as info:
        ray.get([ref, ray.put(1)], timeout=0.2)
    text = str(info.value)
    assert text.startswith("Get timed out: 1 of 2 object(s) not ready within 0.2 s. It waited for 1 of 2: ")
    assert f"{ref.hex()} of task hold, which waits for its " in text
    address = ray.get_runtime_context().gcs_address
    assert f"`eagleray status -v --address {address}` shows what runs and what waits." in text
    with pytest.raises(ray.exceptions.GetTimeoutError) as info:
        ray.get(ref, timeout=0)
    assert str(info.value) == "Get timed out: 1 of 1 object(s) not ready within 0 s."
    gate.touch()
    assert ray.get(ref) == "done"
