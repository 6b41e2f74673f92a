"""Who gets a CPU: blocked tasks lend theirs (D1), workers are capped (D2), fractions and GPUs (D3), what never fits (D4)."""

import os
import time

import pytest

import eagleray as ray
from eagleray import _native


@pytest.fixture
def session(no_session):
    """Starts a session with the resources that a test names."""
    return ray.init


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


class Gate:
    """Files by which tasks say that they started, and wait until they may go on."""

    def __init__(self, folder):
        self.folder = str(folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def open(self, name):
        with open(self.path(name), "w"):
            pass

    def is_open(self, name):
        return os.path.exists(self.path(name))

    def wait(self, name, seconds=40.0):
        deadline = time.monotonic() + seconds
        while not self.is_open(name):
            assert time.monotonic() < deadline, f"{name} never opened"
            time.sleep(0.005)

    def started(self):
        """Start times by name, of tasks that called `enter`."""
        times = {}
        for name in os.listdir(self.folder):
            if name.startswith("started-"):
                with open(self.path(name)) as file:
                    text = file.read()
                if text:
                    times[name[8:]] = float(text)
        return times

    def enter(self, name):
        with open(self.path(f"new-{name}"), "w") as file:
            file.write(repr(time.monotonic()))
        os.rename(self.path(f"new-{name}"), self.path(f"started-{name}"))


@ray.remote
def hold(gate, name):
    """Runs until its gate opens."""
    gate.enter(name)
    gate.wait(name)
    return name


@ray.remote
def block(gate, name, refs, how="get"):
    """Waits for refs of others."""
    gate.enter(name)
    if how == "get":
        ray.get(refs)
    else:
        ray.wait(refs, num_returns=len(refs))
    gate.enter(f"{name}-woke")
    gate.wait(f"{name}-end")
    return name


def free(name="CPU"):
    """What the node has free, below zero too."""
    return _native.status()["free"].get(name, 0) / 10_000


@pytest.mark.one_node("asks its own node for what is free")
def test_D1e_woken_task_may_overdraw_and_then_nothing_new_starts(session, gate, wait_until):
    session(num_cpus=1, resources={"slot": 2})
    gated = hold.options(num_cpus=0).remote(gate, "gated")
    woken = block.remote(gate, "woken", [gated])
    wait_until(lambda: free() == 1)
    # Of another kind, so that the cap of the first kind does not hold it up.
    filler = hold.options(resources={"slot": 1}).remote(gate, "filler")
    wait_until(lambda: "filler" in gate.started())
    gate.open("gated")
    wait_until(lambda: free() == -1, what="both run on one CPU")
    late = hold.options(num_cpus=0.1).remote(gate, "late")
    gate.open("late")
    gate.open("filler")
    assert ray.get(filler) == "filler"
    # One has ended: 0 is free, and that is not enough either.
    wait_until(lambda: free() == 0)
    assert ray.wait([late], timeout=0.3)[0] == []
    assert "late" not in gate.started()
    gate.open("woken-end")
    assert ray.get([woken, late]) == ["woken", "late"]


def test_D2a_the_cap_is_for_each_kind_of_task(session, gate, wait_until):
    session(num_cpus=1)
    gated = hold.options(num_cpus=0).remote(gate, "gated")
    refs = []
    for number, cpus in enumerate([1, 0.9, 0.8, 0.7]):
        refs.append(block.options(num_cpus=cpus).remote(gate, f"b{number}", [gated]))
        wait_until(lambda number=number: f"b{number}" in gate.started())
    times = sorted(value for name, value in gate.started().items() if name.startswith("b"))
    # With one cap for all of them the last one would come after 1 + 2 + 4 s.
    assert times[-1] - times[0] < 6
    gate.open("gated")
    for number in range(4):
        gate.open(f"b{number}-end")
    assert ray.get(refs) == ["b0", "b1", "b2", "b3"]


def test_D3a_fractions_are_exact(session, gate, wait_until):
    session(num_cpus=1, resources={"part": 1})
    holders = [hold.options(num_cpus=0.3333, resources={"part": 0.3333}).remote(gate, f"h{n}") for n in range(3)]
    last = hold.options(num_cpus=0.0001, resources={"part": 0.0001}).remote(gate, "h3")
    wait_until(lambda: len(gate.started()) == 4, what="all four fit exactly")
    assert _native.status()["free"].get("CPU", 0) == 0
    assert _native.status()["free"].get("part", 0) == 0
    more = hold.options(num_cpus=0.0001).remote(gate, "more")
    assert ray.wait([more], timeout=0.3)[0] == []
    for name in ("h0", "h1", "h2", "h3", "more"):
        gate.open(name)
    assert ray.get([*holders, last, more]) == ["h0", "h1", "h2", "h3", "more"]


def test_D4a_what_cannot_be_placed_waits(session):
    session(num_cpus=1, resources={"licence": 1})

    @ray.remote
    def nothing():
        return 1

    impossible = [
        nothing.options(num_cpus=5).remote(),
        nothing.options(resources={"licence": 2}).remote(),
        nothing.options(resources={"unheard of": 1}).remote(),
        nothing.options(num_gpus=1).remote(),
    ]
    assert ray.wait(impossible, timeout=0.5) == ([], impossible)
    # It holds up nobody, and can be cancelled.
    assert ray.get(nothing.remote()) == 1
    for ref in impossible:
        ray.cancel(ref)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref)
