"""A program that does a little of everything for long must not grow: what it keeps of what is over is bounded.

`python tests/python/faults/soak.py --seconds 180` prints every few seconds what the driver's process has for itself (shared pages of the arena
do not count), what it keeps, and in the end how much it grew after the first third, by which time every table that is bounded has its size.
The node is a thread of this process, so its tables are in the figure too. `--only actors tasks` takes some of the loads alone.
"""

import argparse
import contextlib
import gc
import os
import time
from pathlib import Path

import numpy as np

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import RayError

MIB = 1 << 20


@ray.remote
def echo(value):
    return value


@ray.remote
def array(size):
    return np.ones(size, dtype=np.uint8)


@ray.remote
def fail(text):
    raise ValueError(text)


@ray.remote
def sleepy():
    time.sleep(60)


@ray.remote(num_returns="streaming")
def count_up(most):
    yield from range(most)


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, by):
        self.count += by
        return self.count


def tasks(number):
    refs = [echo.remote(at) for at in range(200)]
    ready, _ = ray.wait(refs, num_returns=100, timeout=10)
    assert len(ready) == 100
    assert ray.get(refs) == list(range(200))
    with contextlib.suppress(RayError):
        ray.get(fail.remote(f"number {number}"))


def values(number):
    small = [ray.put(number)] * 20 + [ray.put([at, number]) for at in range(20)]
    large = [array.remote(MIB // 2) for _ in range(4)] + [ray.put(np.zeros(MIB, dtype=np.uint8))]
    chained = echo.remote(large[0])
    assert len(ray.get(small)) == 40
    assert len(ray.get(chained)) == MIB // 2
    assert all(len(value) for value in ray.get(large))


def actors(number):
    made = [Counter.remote() for _ in range(4)]
    assert ray.get([actor.add.remote(number) for actor in made]) == [number] * 4
    for actor in made[:2]:
        ray.kill(actor)
    with contextlib.suppress(RayError):
        ray.get(made[0].add.remote(1))


def names(number):
    actor = Counter.options(name=f"counter {number}").remote()
    found = ray.get_actor(f"counter {number}")
    assert ray.get([actor.add.remote(1), found.add.remote(1)]) == [1, 2]
    del actor, found


def generators(number):
    assert [ray.get(ref) for ref in count_up.remote(50)] == list(range(50))
    unread = count_up.remote(50)
    next(unread)
    del unread


def cancels(number):
    refs = [sleepy.remote() for _ in range(3)]
    for ref in refs:
        ray.cancel(ref)
    for ref in refs:
        with contextlib.suppress(RayError):
            ray.get(ref)


def functions(number):
    def fresh(value):
        return value + number

    assert ray.get(ray.remote(fresh).remote(1)) == number + 1

    class Fresh:
        def add(self, value):
            return value + number

    actor = ray.remote(num_cpus=0)(Fresh).remote()
    assert ray.get(actor.add.remote(1)) == number + 1


LOADS = {load.__name__: load for load in (tasks, values, actors, names, generators, cancels, functions)}


def private_bytes(pid="self"):
    """What the process has for itself: what it wrote to and shares with nobody."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return int(lines["Private_Dirty"].split()[0]) * 1024


def kept():
    objects, pending = _native.tally()
    return f"{objects} objects, {pending} tasks"


def soak(seconds, loads, *, every=10.0, show=print):
    """Run the loads in turn; returns samples of (seconds, rounds, private bytes)."""
    samples = []
    start = time.monotonic()
    shown = start - every
    number = 0
    while time.monotonic() - start < seconds:
        for load in loads:
            load(number)
        number += 1
        if time.monotonic() - shown >= every:
            gc.collect()
            shown = time.monotonic()
            samples.append((shown - start, number, private_bytes()))
            show(f"{shown - start:6.0f} s {number:6} rounds {samples[-1][2] / MIB:8.2f} MiB, {kept()}")
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--only", nargs="*", choices=sorted(LOADS), default=list(LOADS))
    args = parser.parse_args()
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    ray.init(num_cpus=2, log_to_driver=False)
    samples = soak(args.seconds, [LOADS[name] for name in args.only], every=args.every)
    after = [sample for sample in samples if sample[0] >= args.seconds / 3]
    (_, first, before), (_, last, now) = after[0], after[-1]
    print(
        f"grew {(now - before) / MIB:.2f} MiB in {last - first} rounds: {(now - before) / max(last - first, 1):.0f} bytes a round"
    )


if __name__ == "__main__":
    main()
