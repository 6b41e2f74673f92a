"""Compares how waiters wait: never spinning, always spinning, and as eagleray decides, beside more and more strangers.

make bench-spin. Each cell is a session of its own; the three policies take turns, and the median of the turns counts. A cell says calls per
second; "auto of best" is what the decision gets of the better of the two fixed policies. The last row keeps 16 actors busy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from environments import REPOSITORY
from processes import die_with_parent, strangers
from table import figure, plain

POLICIES = ("never", "always", "auto")
SECONDS = 0.6
TURNS = 5
HALF_BUSY = "import time\nwhile True:\n t = time.perf_counter() + 0.005\n while time.perf_counter() < t: pass\n time.sleep(0.005)"
RESULTS = REPOSITORY / "benches" / "results" / "spinning.json"


def main() -> None:
    """Run the table, or one cell of it in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--cell", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(JOBS[options.cell]()))
        return
    rows = [measure_row(title, around, job, options.turns) for title, around, job in ROWS]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(render(rows))


def measure_row(title: str, around: Callable[[], Any], job: str, turns: int) -> dict[str, Any]:
    """Every policy in turn, several times."""
    rates: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    with around():
        for _ in range(turns):
            for policy in POLICIES:
                rates[policy].append(run_cell(job, policy))
    medians = {policy: statistics.median(values) for policy, values in rates.items()}
    print(f"{title}: {medians}", file=sys.stderr, flush=True)
    return {"title": title, "rates": rates} | medians


def run_cell(job: str, policy: str) -> float:
    """One session under one policy, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        done = subprocess.run(
            [sys.executable, __file__, "--cell", job],
            env={"EAGLERAY_SPIN": policy, "PATH": "/usr/bin:/bin", "HOME": scratch, "TMPDIR": scratch},
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
            preexec_fn=die_with_parent,
        )
    return float(json.loads(done.stdout))


def sync_calls(workers: int) -> float:
    """One caller that calls so many actors in turn, one call under way at a time."""
    import eagleray as ray

    ray.init(num_cpus=2, log_to_driver=False)

    class One:
        def one(self) -> int:
            return 1

    actor = ray.remote(One)
    actors = [actor.remote() for _ in range(workers)]

    def job() -> int:
        for each in actors:
            ray.get(each.one.remote())
        return workers

    return rate_of(job)


def busy_actors() -> float:
    """Sixteen actors that always have something to do."""
    import eagleray as ray

    ray.init(num_cpus=2, log_to_driver=False)

    class Busy:
        def work(self) -> int:
            return sum(range(2_000))

    actor = ray.remote(Busy)
    actors = [actor.remote() for _ in range(16)]

    def job() -> int:
        return len(ray.get([each.work.remote() for each in actors for _ in range(8)]))

    return rate_of(job)


def rate_of(job: Callable[[], int]) -> float:
    """Calls per second, after a quarter of the time as a warm-up."""
    end = time.perf_counter() + SECONDS / 4
    while time.perf_counter() < end:
        job()
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        calls += job()
    return calls / (time.perf_counter() - start)


@contextmanager
def half_busy() -> Iterator[None]:
    """A stranger that runs half of the time."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", HALF_BUSY], preexec_fn=die_with_parent)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def render(rows: list[dict[str, Any]]) -> str:
    """The table in words."""
    head = ["calls/s", *POLICIES, "auto of best"]
    body = [
        [row["title"], *(figure(row[policy]) for policy in POLICIES), f"{100 * row['auto'] / best(row):.0f} %"]
        for row in rows
    ]
    return plain(head, body)


def best(row: dict[str, Any]) -> float:
    """What the better fixed policy reached; busy actors are held against sleeping alone."""
    return float(row["never"] if row["title"].startswith("16") else max(row["never"], row["always"]))


JOBS: dict[str, Callable[[], float]] = {
    "one": lambda: sync_calls(1),
    "four": lambda: sync_calls(4),
    "busy": busy_actors,
}
ROWS: list[tuple[str, Callable[[], Any], str]] = [
    (f"{where}, {job} actor{'s' * (job != 'one')}", around, job)
    for where, around in (
        ("idle", lambda: strangers(0)),
        ("half busy", half_busy),
        ("1 stranger", lambda: strangers(1)),
        ("2 strangers", lambda: strangers(2)),
    )
    for job in ("one", "four")
] + [("16 busy actors", lambda: strangers(0), "busy")]

if __name__ == "__main__":
    main()
