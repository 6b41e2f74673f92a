"""Calls, objects and lives over several nodes of this machine: `make bench-cluster`.

eagleray's nodes talk by TLS, as they always do; Ray's `Cluster` beside them does not. Case by case the systems take turns, each in processes of
its own. The driver's node leads and has no processors; the actor, the task or the array is the other node's. Then follow what one sync call
between nodes has to cost, stage by stage, and what nodes take that nobody asks anything of.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import machine
from cluster_cases import NODE_CASES
from environments import REPOSITORY, prepare
from launch import Failed, end_on_signals, launch, launch_case
from measure import ROUNDS, Timing, bench_seconds
from outcome import Outcome
from processes import adopt_orphans
from report import OURS, REFERENCE, goal, ratio
from systems import RAY_LIKE
from table import cell, figure, markdown, plain, times

RESULTS = REPOSITORY / "benches" / "results" / "cluster.json"
HOP = REPOSITORY / "target" / "release" / "examples" / "hop"
HOP_SECONDS_MAX = 60
HOP_TURNS = 3
IDLE_NODES = 8
IDLE_GOAL = f"{IDLE_NODES} idle nodes, goal: 2 % of a core, 40 MiB each"
#: Where processes run, the same in the stages as in the call: each hand-over wakes another core, or all take turns on one.
PLACES = {"another core each": "apart", "one core": "together"}
STAGES = {
    "hand_overs": "4 hand-overs between processes",
    "tcp": "TCP there and back",
    "tls": "TLS: two records sealed and opened",
    "work": "work on both ends: a call on one node",
    "budget": "budget",
    "call": "a call between nodes, nobody spins",
}


@dataclass
class Findings:
    """All that was measured."""

    machine: dict[str, Any]
    seconds: float
    turns: int
    cases: dict[str, dict[str, Outcome]] = field(default_factory=dict)
    #: By place and stage, microseconds.
    hops: dict[str, dict[str, float]] = field(default_factory=dict)
    idle: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def main() -> int:
    """Measure and print; what was measured so far survives Ctrl-C. 1 if eagleray failed somewhere."""
    options = parse()
    adopt_orphans()
    end_on_signals()
    findings = Findings(machine.describe(), options.seconds, options.turns)
    if options.package:
        findings.notes.append(f"eagleray is that of {options.package}.")
    pythons = {system: prepare(system) for system in options.systems}
    try:
        measure_cases(pythons, options, findings)
        if options.hops and OURS in pythons:
            measure_hops(pythons[OURS], options, findings)
        if options.idle:
            measure_idle(pythons, options, findings)
    except KeyboardInterrupt:
        findings.notes.append("interrupted before the end")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(asdict(findings), indent=1) + "\n")
    print(render(findings, as_markdown=options.markdown))
    return int(any(outcomes[OURS].error for outcomes in findings.cases.values() if OURS in outcomes))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=RAY_LIKE, default=list(RAY_LIKE))
    parser.add_argument("--case", nargs="*", choices=list(NODE_CASES), default=list(NODE_CASES), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=bench_seconds(), help="timed seconds per case")
    parser.add_argument("--turns", type=int, default=3, help="times that the systems alternate within a case")
    parser.add_argument("--no-hops", dest="hops", action="store_false")
    parser.add_argument("--no-idle", dest="idle", action="store_false")
    parser.add_argument("--package", type=Path, help="eagleray is imported from this folder: python/ of a built tree")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for docs/performance.md")
    return parser.parse_args()


def measure_cases(pythons: dict[str, Path], options: argparse.Namespace, findings: Findings) -> None:
    """Every case on both systems in turn."""
    for name in options.case:
        outcomes = findings.cases.setdefault(name, {})
        for _ in range(options.turns):
            for system, python in pythons.items():
                outcome = launch_on_nodes(python, system, name, options)
                outcomes.setdefault(system, Outcome()).add(outcome)
                words = f"error: {outcome.short_error}" if outcome.error else f"{cell(outcome)} {NODE_CASES[name].unit}"
                progress(f"{NODE_CASES[name].title}: {system} {words}")


def launch_on_nodes(
    python: Path, system: str, case: str, options: argparse.Namespace, more: tuple[str, ...] = ()
) -> Outcome:
    """One case over two nodes of one system, all of them in processes of their own."""
    arguments = ["--system", system, "--case", case, "--seconds", str(options.seconds), "--rounds", str(ROUNDS), *more]
    try:
        return Outcome(**launch(python, "cluster_child.py", arguments, package=package_of(system, options)))
    except Failed as failure:
        return Outcome(error=str(failure))


def package_of(system: str, options: argparse.Namespace) -> Path | None:
    """Where the system is imported from, unless it is its environment's."""
    return options.package.resolve() if system == OURS and options.package else None


def measure_hops(python: Path, options: argparse.Namespace, findings: Findings) -> None:
    """Take the stages and the call itself in turn, so that a noisy moment hits all alike; medians count."""
    found: dict[str, list[dict[str, float]]] = {place: [] for place in PLACES}
    try:
        for _ in range(HOP_TURNS):
            work = us_per_call(
                launch_case(
                    python,
                    OURS,
                    "sync_actor",
                    Timing(options.seconds, ROUNDS),
                    beside=0,
                    package=package_of(OURS, options),
                )
            )
            for place, how in PLACES.items():
                stages = hops(how) | {"work": work}
                call = launch_on_nodes(python, OURS, "sync_actor", options, ("--asleep", how))
                found[place].append(stages | {"budget": sum(stages.values()), "call": us_per_call(call)})
                progress(f"hops on {place}: {found[place][-1]}")
    except (Failed, OSError, subprocess.SubprocessError) as failure:
        findings.notes.append(f"hops were not measured: {failure}")
        return
    findings.hops = {
        place: {stage: statistics.median(turn[stage] for turn in turns) for stage in STAGES}
        for place, turns in found.items()
    }


def us_per_call(outcome: Outcome) -> float:
    """Microseconds, from calls per second."""
    if not outcome.value:
        raise Failed(outcome.short_error)
    return 1e6 / outcome.value


def hops(how: str) -> dict[str, float]:
    """What a call between nodes cannot do without, by stage, in microseconds."""

    def pin() -> None:
        # Its two ends are on the first and the last core that they may use.
        if how == "together":
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    done = subprocess.run([HOP], check=True, stdout=subprocess.PIPE, text=True, timeout=HOP_SECONDS_MAX, preexec_fn=pin)
    stages: dict[str, float] = json.loads(done.stdout)
    return stages


def measure_idle(pythons: dict[str, Path], options: argparse.Namespace, findings: Findings) -> None:
    """Nodes that nobody asks anything of."""
    for system, python in pythons.items():
        progress(f"{IDLE_NODES} idle nodes: {system} ...")
        arguments = ["--system", system, "--idle", str(IDLE_NODES)]
        try:
            found = launch(python, "cluster_child.py", arguments, package=package_of(system, options))
            findings.idle[system] = found
        except Failed as failure:
            findings.notes.append(f"idle nodes of {system} were not weighed: {failure}")


def render(findings: Findings, *, as_markdown: bool) -> str:
    """All tables, one under the other."""
    table = markdown if as_markdown else plain
    parts = []
    if findings.cases:
        parts.append(table(["case", "unit", OURS, REFERENCE, "ratio", "goal"], case_rows(findings)))
    if findings.hops:
        rows = [[title, *(figure(findings.hops[place][stage]) for place in PLACES)] for stage, title in STAGES.items()]
        share = [100 * stages["budget"] / stages["call"] for stages in findings.hops.values()]
        rows.append(["reached of what the budget allows", *(f"{each:.0f} %" for each in share)])
        parts.append(table(["a sync call between nodes, us", *PLACES], rows))
    if findings.idle:
        rows = [
            [system, figure(idle["cpu_percent"]), figure(idle["private_mib_each"]), figure(idle["processes"])]
            for system, idle in findings.idle.items()
        ]
        parts.append(table([IDLE_GOAL, "% of a core, all", "private MiB each", "processes"], rows))
    for name, outcomes in findings.cases.items():
        parts += [
            f"{NODE_CASES[name].title}, {system}: {each.short_error}" for system, each in outcomes.items() if each.error
        ]
    parts += findings.notes
    parts.append(
        f"{machine.in_words(findings.machine)}. Median of rounds, {findings.seconds:g} s per case, {findings.turns} turns."
    )
    return "\n\n".join(parts)


def case_rows(findings: Findings) -> list[list[str]]:
    """A row per case."""
    rows = []
    for name, outcomes in findings.cases.items():
        case = NODE_CASES[name]
        row = [case.title, case.unit, cell(outcomes.get(OURS)), cell(outcomes.get(REFERENCE))]
        rows.append([*row, times(ratio(case, outcomes)), goal(case)])
    return rows


def progress(words: str) -> None:
    """A line for whoever waits."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
