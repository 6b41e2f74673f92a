"""What Tune costs, beside Ray Tune and Optuna, on this machine and in one run: `make bench-tune`.

Each case runs in a process of its own. The program is the same for eagleray and Ray (`tune_cases.py`); Optuna has no processes of its own, so its
trials run in the process that asks for them. A system that is not to be had here, or fails, leaves its column empty, with a note.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from environments import REPOSITORY, prepare
from table import figure, plain, times

HERE = REPOSITORY / "benches"
LIMIT_S = 900


@dataclass(frozen=True)
class Case:
    """What is counted, and how many of it each system does: enough for some seconds."""

    what: str
    counts: dict[str, int]
    #: The figure is how long it took, not how many there were in a second.
    in_seconds: bool = False


CASES = {
    "trials": Case("trivial trials/s, default loggers", {"eagleray": 2_000, "ray_tune": 30, "optuna": 2_000}),
    "results": Case("results/s, default loggers", {"eagleray": 60_000, "ray_tune": 1_000}),
    "bare": Case("results/s, no loggers", {"eagleray": 100_000, "ray_tune": 2_000}),
    "resume": Case("resume of 10,000 trials, s", {"eagleray": 10_000}, in_seconds=True),
    "resume_tpe": Case("resume of 10,000 trials of TPE, s", {"eagleray": 10_000}, in_seconds=True),
    "resume_gp": Case("resume of 300 trials of GP, s", {"eagleray": 300}, in_seconds=True),
}
SYSTEMS = ("eagleray", "ray_tune", "optuna")


class Missing(Exception):
    """A figure that could not be had, and why."""


def run(system: str, name: str, count: int) -> float:
    """One case on one system."""
    try:
        python = str(prepare(system))
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"{system} cannot be installed: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        if system == "optuna":
            command = [python, str(HERE / "against" / "optuna_trials.py"), str(count)]
        else:
            module = "eagleray" if system == "eagleray" else "ray"
            command = [python, str(HERE / "tune_cases.py"), module, name, str(count), folder]
        extra = {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"} if name == "bare" else {}
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **extra},
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                cwd=folder,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            raise Missing(f"{system}, {name}: not over after {LIMIT_S} s") from error
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["no text"])[-1]
            raise Missing(f"{system}, {name}: exit code {error.returncode}: {last}") from error
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return float(said["seconds"] if CASES[name].in_seconds else said["per_second"])


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts: 0.01 to see that it works")
    options = parser.parse_args()
    rows: list[list[str]] = []
    notes: list[str] = []
    for name in options.cases:
        figures: dict[str, float] = {}
        for system in options.systems:
            if system not in CASES[name].counts:
                continue
            count = max(2, int(CASES[name].counts[system] * options.scale))
            print(f"{name}: {count:,} on {system}", file=sys.stderr, flush=True)
            try:
                figures[system] = run(system, name, count)
            except Missing as missing:
                notes.append(str(missing))
        ratio = figures["eagleray"] / figures["ray_tune"] if {"eagleray", "ray_tune"} <= figures.keys() else None
        rows.append([CASES[name].what, *(figure(figures.get(system)) for system in options.systems), times(ratio)])
    print(plain(["", *options.systems, "to Ray"], rows))
    for note in notes:
        print(f"note: {note}")
    if options.scale != 1.0:
        print(f"note: counts are {options.scale:g} of what they should be; the figures mean little")
    return 1 if any(note.startswith("eagleray") for note in notes) else 0


if __name__ == "__main__":
    sys.exit(main())
