"""Trains every case from every seed, one process and one core each, and keeps a file of what has come out so far.

`PROGRAM OUT.json --cases a,b --seeds 0-4 --processes 16 --limit-s 560` is the same for both sides; each brings a
function that trains one case from one seed. A job that is done in OUT.json already is not run again, so what one
limit did not allow the next run goes on with. A job that the limit ends is kept with the steps that it reached and
without a score: it says how far it came and is compared with nothing. Where its side can say what to go on from, the
next run does; where not, it begins anew, and is not begun at all where the time left is too short for it.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from rl_reward_cases import CASES, Case

POINTS = 50
# What a job may still use after its limit before it is killed: ending an update, writing its line.
GRACE_S = 10.0


class LimitReached(Exception):
    """The time for this job is over."""


@dataclasses.dataclass
class Job:
    """One case from one seed, and what it has shown so far."""

    case: Case
    seed: int
    ends_at: float
    curve: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    steps: int = 0
    # What an earlier run left to go on from, and what this one leaves.
    state: bytes | None = None

    def note(self, steps: int, mean: float | None) -> None:
        """After `steps` the last hundred episodes of training had this mean return. Raises `LimitReached` when time is up."""
        self.steps = steps
        share = math.floor(steps * POINTS / self.case.steps)
        before = math.floor(self.curve[-1][0] * POINTS / self.case.steps) if self.curve else -1
        if mean is not None and math.isfinite(mean) and share > before:
            self.curve.append((steps, round(mean, 2)))
        self.check()

    def check(self) -> None:
        if time.time() > self.ends_at:
            raise LimitReached


# Trains a job, telling it of the curve, and returns the returns of the greedy episodes.
Train = Callable[[Job], Sequence[float]]


def main(system: str, train: Train, versions: Callable[[], dict[str, str]], pace: float = 1.0) -> None:
    """The command line of one side, which takes `pace` times as long as the cases say."""
    parser = argparse.ArgumentParser(description=f"Rewards of {system} with the zoo's settings.")
    parser.add_argument("out", type=Path, help="the file of results; what is done in it is not run again")
    own = [name for name, case in CASES.items() if case.has_peer or system == "eagleray"]
    parser.add_argument("--cases", default=",".join(own), help="names, separated by commas")
    parser.add_argument("--seeds", default="0-4", help="as 0-4 or 1,7")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit-s", type=float, default=math.inf)
    parser.add_argument("--share", type=float, default=1.0, help="of the budgets of steps, to try the program")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(one(train, options.out, json.loads(options.job))), flush=True)
        return
    unknown = set(options.cases.split(",")) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    file = ResultFile(
        options.out, {"system": system, "share": options.share, "versions": versions(), "machine": machine()}
    )
    jobs = [(case, seed) for case in options.cases.split(",") for seed in seeds(options.seeds)]
    left = [job for job in jobs if job not in file.done()]
    left.sort(key=lambda job: -CASES[job[0]].cost_s)
    run(left, file, options, pace)


def fitting(left: list[tuple[str, int]], left_s: float, pace: float) -> int | None:
    """Which job begins next: the longest that ends in the time left, or that can be gone on with another time."""
    if left_s <= 0:
        return None
    for index, (name, _) in enumerate(left):
        if CASES[name].cost_s * pace <= left_s or CASES[name].algorithm in ("PPO", "A2C"):
            return index
    return None


def run(left: list[tuple[str, int]], file: ResultFile, options: argparse.Namespace, pace: float) -> None:
    """All jobs that fit into the limit, as many at a time as there are processes."""
    ends_at = min(time.time() + options.limit_s, 1e12)
    pace *= options.share
    cores = sorted(os.sched_getaffinity(0))
    free = list(range(options.processes))
    running: dict[int, tuple[subprocess.Popen[str], IO[str], tuple[str, int]]] = {}
    while running or fitting(left, ends_at - time.time(), pace) is not None:
        while free and (index := fitting(left, ends_at - time.time(), pace)) is not None:
            case, seed = left.pop(index)
            slot = free.pop(0)
            asked = {"case": case, "seed": seed, "ends_at": ends_at, "share": options.share}
            asked["core"] = cores[slot % len(cores)]
            command = [sys.executable, sys.argv[0], str(options.out), "--job", json.dumps(asked)]
            alone = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            # A file, not a pipe: what is left to go on from is more than a pipe holds, and nobody reads before the end.
            said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the job runs
            child = subprocess.Popen(command, stdout=said, text=True, env=os.environ | alone)
            running[slot] = child, said, (case, seed)
        for slot, (child, said, (case, seed)) in list(running.items()):
            if child.poll() is None:
                if time.time() > ends_at + GRACE_S:
                    child.kill()
                continue
            del running[slot]
            free.append(slot)
            said.seek(0)
            lines = said.read().splitlines()
            said.close()
            if child.returncode or not lines:
                print(f"{case} seed {seed} ended with {child.returncode}", file=sys.stderr, flush=True)
                continue
            record = json.loads(lines[-1])
            file.add(record)
            came = f"score {record['score']}" if record["complete"] else f"unfinished at {record['steps']} steps"
            print(f"{case} seed {seed}: {came} after {record['seconds']} s", flush=True)
        time.sleep(0.05)
    if left:
        print(f"not begun: {len(left)} jobs, the first {left[0][0]} seed {left[0][1]}", flush=True)


def one(train: Train, out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """One job in this process."""
    os.sched_setaffinity(0, {asked["core"]})
    case = CASES[asked["case"]]
    case = dataclasses.replace(case, steps=max(1, int(case.steps * asked["share"])))
    job = Job(case, asked["seed"], asked["ends_at"])
    begun = time.time()
    for earlier in json.loads(out.read_text())["jobs"] if out.exists() else []:
        if (earlier["case"], earlier["seed"]) == (asked["case"], job.seed) and "state" in earlier:
            job.steps, job.curve = earlier["steps"], [(step, mean) for step, mean in earlier["curve"]]
            job.state = base64.b64decode(earlier["state"])
            begun -= earlier["seconds"]
    try:
        returns: Sequence[float] = train(job)
    except LimitReached:
        returns = []
    record: dict[str, Any] = {"case": asked["case"], "seed": job.seed, "steps": job.steps, "complete": bool(returns)}
    record["score"] = round(statistics.fmean(returns), 3) if returns else None
    record["deviation"] = round(statistics.pstdev(returns), 3) if returns else None
    curve = [point for point in job.curve if point[0] <= job.steps]
    record |= {"episodes": len(returns), "seconds": round(time.time() - begun, 1), "curve": curve}
    if job.state is not None and not returns:
        record["state"] = base64.b64encode(job.state).decode()
    return record


class ResultFile:
    """The results so far; whoever reads the file sees a whole one at any time."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.content: dict[str, Any] = about | {"jobs": []}
        if path.exists():
            before = json.loads(path.read_text())
            if before["share"] != about["share"]:
                sys.exit(f"{path} has results of {before['share']} of the budgets: name another file")
            self.content["jobs"] = before["jobs"]
        self.write()

    def done(self) -> set[tuple[str, int]]:
        return {(job["case"], job["seed"]) for job in self.content["jobs"] if job["complete"]}

    def add(self, record: dict[str, Any]) -> None:
        jobs = [job for job in self.content["jobs"] if (job["case"], job["seed"]) != (record["case"], record["seed"])]
        self.content["jobs"] = sorted([*jobs, record], key=lambda job: (list(CASES).index(job["case"]), job["seed"]))
        self.write()

    def write(self) -> None:
        lines = [json.dumps({key: value for key, value in self.content.items() if key != "jobs"})[:-1] + ', "jobs": [']
        lines.append(",\n".join(json.dumps(job, separators=(",", ":")) for job in self.content["jobs"]) + "]}")
        beside = self.path.with_name(self.path.name + ".tmp")
        beside.write_text("\n".join(lines) + "\n")
        beside.replace(self.path)


def seeds(text: str) -> list[int]:
    """As `0-4` or `1,7`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
