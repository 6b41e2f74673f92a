"""Owners, borrowers, writers and readers are killed at random while values of all kinds go round between them.

`python tests/python/faults/storm.py --seconds 600 --seed 1` runs it for long; the test suite for a few seconds. Every value that somebody
holds must stay readable, whoever made it; in the end, when all is dropped, the node's own audit must find nothing left over.
"""

import argparse
import contextlib
import os
import random
import signal
import tempfile
import threading
import time

import numpy as np

import eagleray as ray
from eagleray import _native, testing
from eagleray._cli import memory_report
from eagleray.exceptions import RayError

MIB = 1 << 20
#: So many values are held at a time.
HELD_MAX = 150


def array(number, size):
    return np.full(size, number % 251, dtype=np.uint8)


def is_right(value, number, size):
    return bool((value == array(number, size)).all()) if size else value == number


@ray.remote(max_retries=-1)
def task(number, size):
    return array(number, size) if size else number


@ray.remote(max_retries=-1)
def relay(boxed):
    return boxed[0]


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)
class Hand:
    """Makes values, hands them on, keeps some."""

    def __init__(self):
        self.kept = []

    def put(self, number, size):
        return [ray.put(array(number, size) if size else number)]

    def run(self, number, size):
        return [task.remote(number, size)]

    def wrap(self, refs):
        return [ray.put(list(refs))]

    def through(self, refs):
        return [relay.remote([refs])]

    def keep(self, refs):
        self.kept.append(refs)
        return self.kept.pop(0) if len(self.kept) > 3 else refs

    def forget(self):
        self.kept.clear()


class Killer:
    """Kills a random worker every now and then, from a seed."""

    def __init__(self, seed, pause):
        self.random, self.pause = random.Random(seed), pause
        self.killed = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(self.random.uniform(0, 2 * self.pause)):
            pids = [pid for pid, role, _ in _native.status()["processes"] if role not in ("driver", "starting") and pid]
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(pids), signal.SIGKILL)
                    self.killed += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class Storm:
    """What goes round, and what it must be."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.hands = [Hand.remote() for _ in range(4)]
        #: (ref, how deep it is boxed, number, size)
        self.held = []
        self.reads = self.calls = self.failed_calls = 0
        self.wrong = []

    def ask(self, method, *args):
        """A call on some hand. That call may fail with its hand; what it returned is held from then on."""
        self.calls += 1
        try:
            return ray.get(getattr(self.random.choice(self.hands), method).remote(*args), timeout=60)
        except RayError as error:
            self.failed_calls += 1
            name = type(error).__name__
            # It is started again however often it dies.
            if name != "ActorUnavailableError":
                self.wrong.append(f"{method}: {name}: {error}")
            # It is on its way back.
            time.sleep(0.01)
            return None

    def step(self):
        act = self.random.random()
        number, size = self.random.randrange(1_000), self.random.choice((0, 0, 200_000, 2 * MIB))
        if act < 0.35 or not self.held:
            refs = self.ask(self.random.choice(("put", "run")), number, size)
            if refs:
                self.held.append((refs[0], 0, number, size))
        elif act < 0.5:
            ref, depth, number, size = self.random.choice(self.held)
            refs = self.ask(self.random.choice(("wrap", "through")), [ref])
            if refs:
                self.held.append((refs[0], depth + 1, number, size))
        elif act < 0.6:
            at = self.random.randrange(len(self.held))
            ref, depth, number, size = self.held[at]
            self.ask("keep", [ref])
        elif act < 0.85:
            self.read(self.random.choice(self.held))
        else:
            self.held.pop(self.random.randrange(len(self.held)))
        while len(self.held) > HELD_MAX:
            self.held.pop(0)

    def read(self, entry):
        ref, depth, number, size = entry
        self.reads += 1
        try:
            for _ in range(depth):
                [ref] = ray.get(ref, timeout=60)
            if not is_right(ray.get(ref, timeout=60), number, size):
                self.wrong.append(f"another value than {number} of {size} bytes")
        except Exception as error:
            self.wrong.append(f"read at depth {depth}, {size} bytes: {type(error).__name__}: {error}"[:300])

    def end(self):
        """Everything that is held is read once more, and dropped."""
        for entry in self.held:
            self.read(entry)
        self.held.clear()
        entry = None
        self.hands.clear()


def run(seconds, seed, pause=0.15, store_mib=100):
    """A storm in a session of its own: (the storm, how many were killed, what an audit finds in the end)."""
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=2, object_store_memory=store_mib * MIB, object_spilling_directory=folder, log_to_driver=False)
        try:
            storm = Storm(seed)
            with Killer(seed, pause) as killer:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    storm.step()
            storm.end()
            until = time.monotonic() + 30
            while (findings := testing.audit()) and time.monotonic() < until:
                time.sleep(0.1)
            if findings:
                findings += memory_report.table(_native.inventory()).splitlines()
            return storm, killer.killed, findings
        finally:
            ray.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.15, help="seconds between two kills, on average")
    arguments = parser.parse_args()
    storm, killed, findings = run(arguments.seconds, arguments.seed, arguments.pause)
    print(f"{killed} killed, {storm.calls} calls ({storm.failed_calls} failed with their actor), {storm.reads} reads")
    for line in [*storm.wrong, *findings]:
        print("WRONG:", line)
    raise SystemExit(1 if storm.wrong or findings else 0)


if __name__ == "__main__":
    main()
