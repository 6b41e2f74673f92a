"""Measures two builds of eagleray in turn, pair by pair, and says which cases became slower: `make bench-ab`.

make bench-ab BASE=<revision>                   builds that revision below build/ab and compares this tree with it
make bench-ab OLD=<folder>                      compares this tree with a built one
make bench-ab BASE=HEAD~3 ARGS="--case sync_task sync_actor --pairs 30"

A pair is the same case on both, one right after the other, in random order, each in a process of its own. A case counts as slower
where the 95 % interval of the ratio lies beyond 3 %; if there is one, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cases import CASES, Case
from environments import REPOSITORY
from launch import end_on_signals, launch_case
from measure import Timing
from outcome import Outcome
from pairing import PAIRS_LEAST, Verdict, judge
from processes import adopt_orphans
from table import figure, plain

FOLDER = REPOSITORY / "build" / "ab"
EXTENSION = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
PAIRS = 15
SECONDS = 0.4
ROUNDS = 2
HEADS = ("case", "unit", "old", "new", "new/old", "95 %", "pairs", "")


@dataclass
class Result:
    """All that was measured of a case: one figure per pair and side."""

    case: Case
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """None where there are not pairs enough."""
        if len(self.old) < PAIRS_LEAST:
            return None
        return judge([self.case.times_better(new, old) for old, new in zip(self.old, self.new, strict=True)])

    @property
    def row(self) -> list[str]:
        """As in the table."""
        verdict = self.verdict
        if verdict is None:
            return [
                self.case.title,
                self.case.unit,
                "-",
                "-",
                "-",
                "-",
                str(len(self.old)),
                self.error or "too few pairs",
            ]
        return [
            self.case.title,
            self.case.unit,
            figure(statistics.median(self.old)),
            figure(statistics.median(self.new)),
            f"{verdict.ratio:.3f}",
            f"{verdict.low:.3f} .. {verdict.high:.3f}",
            str(len(self.old)),
            verdict.word,
        ]


def main() -> int:
    """Build, measure, print; 1 if a case became slower or could not be measured on this tree."""
    options = parse()
    old = options.old.resolve() if options.old else build(options.base)
    for tree in (old, REPOSITORY):
        check(tree)
    adopt_orphans()
    end_on_signals()
    timing = Timing(options.seconds, ROUNDS)
    beside = f" beside {options.strangers} strangers" if options.strangers else ""
    print(
        f"old: {old}\nnew: {REPOSITORY}\n{options.pairs} pairs a case, {options.seconds:g} s each{beside}", flush=True
    )
    results: list[Result] = []

    def measure(tree: Path, case: Case) -> Outcome:
        return launch_case(
            Path(sys.executable), "eagleray", case.name, timing, beside=options.strangers, package=tree / "python"
        )

    try:
        for name in options.case:
            results.append(Result(CASES[name]))
            compare(results[-1], old, REPOSITORY, options.pairs, random.Random(f"{options.seed} {name}"), measure)
            print("  ".join(results[-1].row), flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
    print("\n" + plain(HEADS, [result.row for result in results]))
    if options.json:
        rows = {each.case.name: {"old": each.old, "new": each.new, "error": each.error} for each in results}
        verdicts = {each.case.name: asdict(verdict) for each in results if (verdict := each.verdict)}
        options.json.write_text(json.dumps({"rounds": rows, "verdicts": verdicts}, indent=1) + "\n")
    return report(results)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sides = parser.add_mutually_exclusive_group(required=True)
    sides.add_argument("--base", help="a revision, which is built")
    sides.add_argument("--old", type=Path, help="a folder with a built python/eagleray")
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="timed seconds per case and side")
    parser.add_argument("--strangers", type=int, default=0, help="CPU-bound processes running beside")
    parser.add_argument("--seed", type=int, default=1, help="of the order within pairs")
    parser.add_argument("--json", type=Path, help="also write all pairs there")
    options = parser.parse_args()
    if options.pairs < PAIRS_LEAST:
        parser.error(f"--pairs: at least {PAIRS_LEAST}")
    return options


def compare(
    result: Result, old: Path, new: Path, pairs: int, chance: random.Random, measure: Callable[[Path, Case], Outcome]
) -> None:
    """Fill the result with pairs. A side that fails twice running has an error, which ends the case."""
    failed = ""
    while len(result.old) < pairs:
        order = [old, new] if chance.random() < 0.5 else [new, old]
        outcomes = {tree: measure(tree, result.case) for tree in order}
        values = outcomes[old].value, outcomes[new].value
        if values[0] is not None and values[1] is not None:
            result.old.append(values[0])
            result.new.append(values[1])
            failed = ""
            continue
        side = "old" if values[0] is None else "new"
        if failed:
            result.error = f"{side}: {outcomes[old if side == 'old' else new].short_error}"
            return
        failed = side


def report(results: list[Result]) -> int:
    """Say in a line what came of it; the exit code."""
    slower = [each.case.name for each in results if (verdict := each.verdict) and verdict.is_slower]
    broken = [each.case.name for each in results if each.error.startswith("new")]
    if slower:
        print(f"\nslower: {' '.join(slower)}")
    if broken:
        print(f"\nfails: {' '.join(broken)}")
    if not slower and not broken:
        print("\nno case is slower")
    return int(bool(slower or broken))


def build(revision: str) -> Path:
    """The tree of a revision below build/ab, its extension optimised as `make build` does it. What was built once is used again."""
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    tree = FOLDER / commit[:12]
    extension = tree / "python" / "eagleray" / EXTENSION
    if extension.exists():
        return tree
    print(f"building {commit[:12]} ({_git('log', '-1', '--format=%s', commit)})", flush=True)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = subprocess.Popen(["git", "-C", str(REPOSITORY), "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, check=True)
    if archive.wait() != 0:
        raise SystemExit(f"git has no tree of {commit}")
    # One folder for all: what the revisions have in common is compiled once.
    environment = os.environ | {"CARGO_TARGET_DIR": str(FOLDER / "target"), "PYO3_PYTHON": sys.executable}
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "-p",
        "eagleray-python",
        "--features",
        "pyo3/extension-module",
    ]
    subprocess.run(command, cwd=tree, env=environment, check=True)
    shutil.copy2(FOLDER / "target" / "release" / "lib_native.so", extension)
    return tree


def check(tree: Path) -> None:
    """Refuse a tree without an extension for this interpreter."""
    if not (tree / "python" / "eagleray" / EXTENSION).exists():
        raise SystemExit(f"{tree} has no python/eagleray/{EXTENSION}: build it first")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(REPOSITORY), *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
