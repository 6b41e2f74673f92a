"""Re-measures what the machine itself allows: round trips, a system call, copying, first touch, fork.

Round trips come from `eagleray._native.measure_round_trip` where it exists; else from Python, whose loop adds to them.
Of several turns the best counts: a limit is what the machine can do when let alone.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import mmap
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from processes import die_with_parent
from table import figure

COPY_BYTES = 100 << 20
TURNS = 5
SPIN_ROUNDS = 20_000
SLEEP_ROUNDS = 2_000
SYSCALLS = 200_000
FORKS = 50


@dataclass(frozen=True)
class Limit:
    """One limit of the machine, and how it was measured."""

    title: str
    value: float
    unit: str
    how: str


def measure_limits() -> dict[str, Limit]:
    """All limits, in the order of the design brief's table."""
    rate = "GiB/s"
    return {
        "spinning_round_trip": round_trip("spin", python_spin),
        "sleeping_round_trip": round_trip("futex", python_pipe),
        "system_call": Limit("a system call", system_call(), "us", "getppid, less an empty C call"),
        "copy": Limit("copy into touched private pages", copy_rate(private_pages()), rate, "numpy copy of 100 MiB"),
        "copy_shared": Limit("copy into touched shared pages", copy_rate(shared_pages()), rate, "the same, memfd"),
        "first_touch": Limit("first touch of shared pages", first_touch(shared_pages), rate, "fill of 100 MiB, memfd"),
        "first_touch_private": Limit(
            "first touch of private pages", first_touch(private_pages), rate, "fill of 100 MiB"
        ),
        "fork": Limit("fork + exit + wait", fork_exit_wait(), "ms", "this Python, numpy loaded"),
    }


def round_trip(kind: str, fallback: Callable[[int], float]) -> Limit:
    """Microseconds there and back between two processes that spin (or sleep)."""
    title = "spinning round trip, shared memory" if kind == "spin" else "sleeping round trip"
    rounds = SPIN_ROUNDS if kind == "spin" else SLEEP_ROUNDS
    try:
        native = importlib.import_module("eagleray._native").measure_round_trip
    except (ImportError, AttributeError):
        seconds = min(fallback(rounds) for _ in range(TURNS))
        return Limit(title, seconds * 1e6, "us", "Python to Python" + (", pipes, two cores" if kind != "spin" else ""))
    seconds = min(native(kind, rounds) for _ in range(TURNS))
    return Limit(title, seconds * 1e6, "us", f"native, {kind}")


def python_spin(rounds: int) -> float:
    """Two Python processes pass a byte through a shared page, each reading until it changes."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page, memoryview(page) as words:
        # The two flags lie on cache lines of their own.
        ask, answer = 0, 128

        def echo() -> None:
            for i in range(1, rounds + 1):
                wanted = i & 0xFF
                while words[ask] != wanted:
                    pass
                words[answer] = wanted

        child = fork(echo)
        time.sleep(0.01)
        began = time.perf_counter()
        for i in range(1, rounds + 1):
            wanted = i & 0xFF
            words[ask] = wanted
            while words[answer] != wanted:
                pass
        elapsed = time.perf_counter() - began
        os.waitpid(child, 0)
    return elapsed / rounds


def python_pipe(rounds: int) -> float:
    """Two Python processes pass a byte through two pipes, each asleep while the other has it."""
    ask_out, ask_in = os.pipe()
    answer_out, answer_in = os.pipe()

    # On one core the kernel would hand over by a plain switch; an idle core has to be woken, which is what costs.
    allowed = os.sched_getaffinity(0)
    here, there = min(allowed), max(allowed)

    def echo() -> None:
        os.sched_setaffinity(0, {there})
        for _ in range(rounds):
            os.write(answer_in, os.read(ask_out, 1))

    child = fork(echo)
    os.sched_setaffinity(0, {here})
    began = time.perf_counter()
    for _ in range(rounds):
        os.write(ask_in, b"x")
        os.read(answer_out, 1)
    elapsed = time.perf_counter() - began
    os.waitpid(child, 0)
    os.sched_setaffinity(0, allowed)
    for descriptor in (ask_out, ask_in, answer_out, answer_in):
        os.close(descriptor)
    return elapsed / rounds


def system_call() -> float:
    """Microseconds of getppid, less those of a C function that makes no system call."""

    def per_call(function: Callable[[], object]) -> float:
        began = time.perf_counter()
        for _ in range(SYSCALLS):
            function()
        return (time.perf_counter() - began) / SYSCALLS

    return (min(per_call(os.getppid) for _ in range(TURNS)) - min(per_call(gc.isenabled) for _ in range(TURNS))) * 1e6


def private_pages() -> NDArray[np.uint8]:
    """Fresh anonymous memory, never touched; huge pages as the machine gives them."""
    return np.frombuffer(mmap.mmap(-1, COPY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=np.uint8)


def shared_pages() -> NDArray[np.uint8]:
    """Fresh memory of a memfd, never touched, as an object store has it."""
    descriptor = os.memfd_create("limits")
    try:
        os.ftruncate(descriptor, COPY_BYTES)
        return np.frombuffer(mmap.mmap(descriptor, COPY_BYTES), dtype=np.uint8)
    finally:
        os.close(descriptor)


def copy_rate(target: NDArray[np.uint8]) -> float:
    """GiB/s of one thread copying into pages that were touched before."""
    source = np.ones(COPY_BYTES, dtype=np.uint8)
    target.fill(0)

    def seconds() -> float:
        began = time.perf_counter()
        np.copyto(target, source)
        return time.perf_counter() - began

    seconds()
    return COPY_BYTES / (1 << 30) / min(seconds() for _ in range(4 * TURNS))


def first_touch(fresh: Callable[[], NDArray[np.uint8]]) -> float:
    """GiB/s of writing to pages for the first time."""

    def seconds() -> float:
        pages = fresh()
        began = time.perf_counter()
        pages.fill(1)
        return time.perf_counter() - began

    return COPY_BYTES / (1 << 30) / min(seconds() for _ in range(TURNS))


def fork_exit_wait() -> float:
    """Milliseconds for a child that does nothing."""

    def seconds() -> float:
        began = time.perf_counter()
        os.waitpid(fork(lambda: None), 0)
        return time.perf_counter() - began

    return min(seconds() for _ in range(FORKS)) * 1e3


def fork(body: Callable[[], None]) -> int:
    """Run the body in a forked child that leaves without cleaning up and never outlives us."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        die_with_parent()
        body()
    finally:
        os._exit(0)


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    limits = measure_limits()
    for limit in limits.values():
        print(f"{limit.title:<36} {figure(limit.value):>8} {limit.unit:<6} {limit.how}")
    if options.out:
        options.out.write_text(json.dumps({name: asdict(limit) for name, limit in limits.items()}))


if __name__ == "__main__":
    main()
