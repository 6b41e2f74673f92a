"""Compares eagleray with its peers on this machine in one run: `make bench-peers`.

Case by case, each system in turn runs it in a process of its own, so that a noisy minute hits all alike. Peers get
their environments under build/peers; eagleray runs from .venv. What is measured goes to a JSON file after every case.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from cases import CASES
from environments import REPOSITORY, describe, prepare
from launch import Failed, end_on_signals, launch, launch_case
from measure import ROUNDS, Timing, bench_seconds
from outcome import Outcome
from processes import adopt_orphans
from report import Comparison, render
from systems import SYSTEMS
from table import figure
from weight import weigh_apart

RESULTS = REPOSITORY / "benches" / "results" / "peers.json"
INTERRUPTED = "interrupted before the end"


def main() -> int:
    """Measure (or read what was measured), print; what was measured so far survives Ctrl-C."""
    options = parse()
    if options.reuse:
        print(render(Comparison.read(options.json), as_markdown=options.markdown))
        return 0
    adopt_orphans()
    end_on_signals()
    comparison = Comparison.begin(strangers=options.strangers, seconds=options.seconds, turns=options.turns)
    try:
        pythons = prepare_all(options.systems, comparison)
        if options.limits:
            measure_limits(pythons, comparison)
        measure_cases(pythons, options, comparison)
        if options.weight:
            measure_weights(pythons, comparison)
    except KeyboardInterrupt:
        comparison.notes.append(INTERRUPTED)
    finally:
        comparison.write(options.json)
    print(render(comparison, as_markdown=options.markdown))
    progress(f"all rounds are in {options.json}")
    return 130 if INTERRUPTED in comparison.notes else 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=_listed(SYSTEMS), default=list(SYSTEMS), help=",".join(SYSTEMS))
    parser.add_argument("--cases", type=_listed(tuple(CASES)), default=list(CASES), help=",".join(CASES))
    parser.add_argument("--seconds", type=float, default=bench_seconds(), help="timed seconds per case")
    parser.add_argument("--turns", type=int, default=1, help="times that the systems alternate within a case")
    parser.add_argument(
        "--strangers", type=lambda text: [int(each) for each in text.split(",")], default=[0, 2], metavar="0,2"
    )
    parser.add_argument("--no-limits", dest="limits", action="store_false")
    parser.add_argument("--no-weight", dest="weight", action="store_false")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for docs/performance.md")
    parser.add_argument("--reuse", action="store_true", help="measure nothing, print what the JSON file holds")
    return parser.parse_args()


def _listed(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """An argument type: names with commas between."""

    def parse_names(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(choices):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(choices)}")
        return names

    return parse_names


def prepare_all(systems: list[str], comparison: Comparison) -> dict[str, Path]:
    """Interpreters of all systems that can be had; why another cannot is noted."""
    pythons = {}
    for system in systems:
        try:
            pythons[system] = prepare(system)
            comparison.versions[system] = version(pythons[system], describe(system).distribution)
        except (OSError, subprocess.CalledProcessError) as error:
            comparison.notes.append(f"{system} was left out: {error}")
            progress(comparison.notes[-1])
    return pythons


def version(python: Path, distribution: str | None) -> str:
    """The system's version as its environment has it; Python's own for the standard library."""
    ask = f"importlib.metadata.version({distribution!r})" if distribution else "platform.python_version()"
    command = [str(python), "-c", f"import importlib.metadata, platform; print({ask})"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measure_limits(pythons: dict[str, Path], comparison: Comparison) -> None:
    """The machine's own limits, with eagleray's native round trip where that is there."""
    progress("limits of the machine ...")
    python = pythons.get("eagleray") or next(iter(pythons.values()))
    try:
        comparison.limits = launch(python, "limits.py", [])
    except Failed as failure:
        comparison.notes.append(f"limits were not measured: {failure}")


def measure_cases(pythons: dict[str, Path], options: argparse.Namespace, comparison: Comparison) -> None:
    """Every case, beside every number of strangers, on every system in turn."""
    timing = Timing(options.seconds, ROUNDS)
    runs = [(name, beside) for name in options.cases for beside in options.strangers]
    for done, (name, beside) in enumerate(runs, start=1):
        case = CASES[name]
        outcomes = comparison.outcomes(name, beside)
        where = f"[{done}/{len(runs)}] {case.title}" + (f", beside {beside} strangers" if beside else "")
        for _ in range(options.turns):
            for system, python in pythons.items():
                outcome = launch_case(python, system, name, timing, beside=beside)
                outcomes.setdefault(system, Outcome()).add(outcome)
                if not outcome.absent:
                    words = (
                        f"error: {outcome.short_error}"
                        if outcome.value is None
                        else f"{figure(outcome.value)} {case.unit}"
                    )
                    progress(f"{where}: {system} {words}")
        comparison.write(options.json)


def measure_weights(pythons: dict[str, Path], comparison: Comparison) -> None:
    """Weight of every system as a driver starts it, and of eagleray as a daemon."""
    for system, python in pythons.items():
        for daemon in (False, True) if system == "eagleray" else (False,):
            title = f"{system} (daemon)" if daemon else system
            progress(f"weight of {title} ...")
            try:
                comparison.weights[title] = asdict(weigh_apart(python, system, daemon=daemon))
            except Failed as failure:
                comparison.notes.append(f"{title} was not weighed: {failure}")


def progress(words: str) -> None:
    """A line for whoever waits."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
