"""Plants each bug of docs/mutations.md in a copy of the sources and sees whether the tests find it.

A mutation is a diff of one file under its heading. It is caught if a test of its crate or the simulation fails; the test that
the page names must be among them. A bug that makes the tests hang counts as caught. The copy and what is built from it
stay under build/mutants, so that a second run is quicker.

    python scripts/mutants.py            plant all, one after the other: some three minutes
    python scripts/mutants.py 4 7        plant only these
    python scripts/mutants.py --check    see only whether every diff still fits its file
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutants"
PAGE = "docs/mutations.md"
COPIED = ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "crates")
SECONDS_MAX = 600

_SECTION = re.compile(r"^## (?P<number>\d+)\. (?P<title>[^\n]+)$(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_DIFF = re.compile(r"^```diff\n(?P<diff>.*?)^```$", re.MULTILINE | re.DOTALL)
_FAILED = re.compile(r"^test (?P<name>\S+) \.\.\. FAILED$", re.MULTILINE)


class Malformed(Exception):
    """The page cannot be read as what it should be."""


@dataclass(frozen=True)
class Mutation:
    """A bug to plant, and the test that is said to find it."""

    number: int
    title: str
    path: str
    old: str
    new: str
    test: str

    @property
    def package(self) -> str:
        """The crate that is changed."""
        return f"eagleray-{Path(self.path).parts[1]}"

    def planted(self, text: str) -> str:
        """The file with the bug in it."""
        count = text.count(self.old)
        if count != 1:
            message = f"{PAGE}: mutation {self.number} fits {count} places of {self.path}, not one"
            raise Malformed(message)
        return text.replace(self.old, self.new)


def parse(page: str) -> list[Mutation]:
    """The mutations of the page."""
    mutations = []
    for section in _SECTION.finditer(page):
        body = section["body"]
        path = re.search(r"^`(crates/[^`]+)`", body, re.MULTILINE)
        diff = _DIFF.search(body)
        test = re.search(r"^Caught by `([^`]+)`", body, re.MULTILINE)
        if not (path and diff and test):
            message = f"{PAGE}: mutation {section['number']} lacks its file, its diff or its test"
            raise Malformed(message)
        lines = diff["diff"].splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in "- ")
        new = "".join(line[1:] for line in lines if line[0] in "+ ")
        mutations.append(Mutation(int(section["number"]), section["title"], path[1], old, new, test[1]))
    if [mutation.number for mutation in mutations] != list(range(1, len(mutations) + 1)):
        message = f"{PAGE}: mutations are not numbered from one on"
        raise Malformed(message)
    return mutations


@dataclass(frozen=True)
class Outcome:
    """What the tests say."""

    has_failed: bool
    tests: list[str]


def run_tests(*arguments: str) -> Outcome:
    """Runs cargo's tests in the copy."""
    # A property that fails need not say how simply it can fail.
    environment = {**os.environ, "PROPTEST_MAX_SHRINK_ITERS": "0", "RUST_BACKTRACE": "0"}
    command = ["cargo", "test", "--no-fail-fast", "--target-dir", str(SCRATCH / "target"), *arguments]
    try:
        ran = subprocess.run(
            command,
            cwd=SCRATCH / "tree",
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(has_failed=True, tests=["(it hangs)"])
    if "could not compile" in ran.stderr:
        print(ran.stderr, file=sys.stderr)
        message = "a mutation does not compile"
        raise Malformed(message)
    failed = _FAILED.findall(ran.stdout)
    return Outcome(has_failed=ran.returncode != 0, tests=failed or (["(it crashes)"] if ran.returncode else []))


def simulate() -> Outcome:
    """Runs 200 seeds of one node and 1,000 of several in the copy."""
    return run_tests("--package", "eagleray-sim", "--test", "seeds", "--", "two_hundred_seeds", "cut_1")


def copy_tree() -> None:
    """Makes the copy. Its files are new, so that nothing is taken for built that was built with a bug in it."""
    tree = SCRATCH / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, copy_function=shutil.copy)
        else:
            shutil.copy(source, tree / name)


def plant(mutation: Mutation) -> bool:
    """Plants one bug, runs the tests, takes it out again; says whether it was caught as the page says."""
    start = time.monotonic()
    file = SCRATCH / "tree" / mutation.path
    text = file.read_text(encoding="utf-8")
    file.write_text(mutation.planted(text), encoding="utf-8")
    try:
        tests = run_tests("--package", mutation.package)
        simulation = simulate()
    finally:
        file.write_text(text, encoding="utf-8")
    is_named = mutation.test in tests.tests + simulation.tests
    verdict = "caught" if is_named else "caught, but not by its test" if tests.has_failed else "survived its tests"
    more = len(tests.tests) - (mutation.test in tests.tests)
    simulated = "and by simulation" if simulation.has_failed else "but not by simulation"
    took = time.monotonic() - start
    print(f"{mutation.number:>2}. {mutation.title}: {verdict}, by {more} more tests {simulated} ({took:.0f} s)")
    if not is_named:
        print(
            f"    {mutation.test} did not fail; what failed: {', '.join(tests.tests + simulation.tests) or 'nothing'}"
        )
    sys.stdout.flush()
    return is_named


def main() -> int:
    """Plants what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, help="which mutations; all if none is named")
    parser.add_argument("--check", action="store_true", help="only see whether every diff fits")
    arguments = parser.parse_args()
    try:
        mutations = parse((ROOT / PAGE).read_text(encoding="utf-8"))
        for mutation in mutations:
            mutation.planted((ROOT / mutation.path).read_text(encoding="utf-8"))
        if arguments.check:
            return 0
        chosen = [mutation for mutation in mutations if not arguments.numbers or mutation.number in arguments.numbers]
        copy_tree()
        for package in sorted({mutation.package for mutation in chosen}):
            if failed := run_tests("--package", package).tests:
                message = f"{package} fails without any mutation: {', '.join(failed)}"
                raise Malformed(message)
        if simulate().has_failed:
            message = "the simulation fails without any mutation"
            raise Malformed(message)
        caught = [plant(mutation) for mutation in chosen]
    except Malformed as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{sum(caught)} of {len(caught)} mutations caught")
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
