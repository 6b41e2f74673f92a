"""Runs the cases on one system in the current interpreter's environment and prints a row per case.

A whole run on eagleray ends with the time of one call split by stage.

python benches/run.py --system eagleray|ray|monarch|dask|multiprocessing|processpool
                      [--case NAME ...] [--strangers N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from cases import CASES, Case
from launch import Failed, end_on_signals, launch, launch_case
from measure import ROUNDS, Timing, bench_seconds
from outcome import Outcome
from processes import adopt_orphans
from systems import SYSTEMS
from table import cell, figure


def main() -> int:
    """Measure and print; the exit code is 1 if a case failed."""
    options = parse()
    adopt_orphans()
    end_on_signals()
    timing = Timing(options.seconds, options.rounds)
    outcomes: dict[str, Outcome] = {}
    width = max(len(CASES[name].title) for name in options.case)
    beside = f" beside {options.strangers} strangers" if options.strangers else ""
    print(f"{options.system}{beside}: median of {options.rounds} rounds, {options.seconds:g} s per case", flush=True)
    try:
        for name in options.case:
            case = CASES[name]
            print(f"{case.title:<{width}}", end="  ", flush=True)
            outcomes[name] = launch_case(Path(sys.executable), options.system, name, timing, beside=options.strangers)
            print(row(case, outcomes[name]), flush=True)
        if options.system == "eagleray" and len(options.case) == len(CASES):
            print(f"\n{stages()}", flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
    if options.json:
        rows = {name: {"unit": CASES[name].unit, "value": each.value} | asdict(each) for name, each in outcomes.items()}
        options.json.write_text(
            json.dumps({"system": options.system, "strangers": options.strangers, "cases": rows}, indent=1) + "\n"
        )
    return int(len(outcomes) < len(options.case) or any(outcome.error for outcome in outcomes.values()))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=SYSTEMS, default="eagleray")
    parser.add_argument(
        "--case", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME", help=", ".join(CASES)
    )
    parser.add_argument("--strangers", type=int, default=0, help="CPU-bound processes running beside")
    parser.add_argument(
        "--seconds", type=float, default=bench_seconds(), help="timed seconds per case (EAGLERAY_BENCH_SECONDS)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="also write all rounds there")
    return parser.parse_args()


def row(case: Case, outcome: Outcome) -> str:
    """What follows the case's title."""
    if outcome.value is None:
        return "-" if outcome.absent else f"error: {outcome.short_error}"
    spread = f"{figure(min(outcome.rounds))} .. {figure(max(outcome.rounds))}"
    return f"{cell(outcome):>12} {case.unit:<9} ({spread})"


def stages() -> str:
    """The time of one call split by stage, or why it cannot be told."""
    try:
        return str(launch(Path(sys.executable), "stages.py", []))
    except Failed as failure:
        return f"no stages to show: {failure}"


if __name__ == "__main__":
    sys.exit(main())
