"""Which promise is proven by which test.

Reads the clauses in docs/semantics.toml and the tests under tests/python. A test claims clauses in its name
(``test_T2a_T2c_refs_are_resolved``) or in a comment directly above or inside it (``# proves: T2a, T2c``). A test that
is always skipped or expected to fail proves nothing. A claim of an unknown clause is an error in every mode.

    python scripts/semantics.py            every clause with its tests, then what is unproven
    python scripts/semantics.py --summary  one line per rule
    python scripts/semantics.py --strict   also fail when a clause has no test
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

_CLAUSE = re.compile(r"(?P<rule>[A-Z]\d+)(?P<letter>[a-z])?")
_PROVES = re.compile(r"#\s*proves:\s*(?P<claims>.*)")


class Malformed(Exception):
    """The rules or the tests cannot be read as what they should be."""


@dataclass
class Rule:
    """A numbered promise and the clauses that make it up."""

    number: str
    about: str
    clauses: dict[str, str]


@dataclass
class Rules:
    """All rules, and the clauses whose part of the product is still to come."""

    rules: dict[str, Rule]
    later: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Rules:
        """Reads docs/semantics.toml."""
        tables = tomllib.loads(text)
        later = tables.pop("later", {})
        rules = {}
        for number, table in tables.items():
            clauses = {number + letter: words for letter, words in table.items() if letter != "about"}
            named = all(_CLAUSE.fullmatch(clause) and clause[-1].isalpha() for clause in clauses)
            if not clauses or not named or not isinstance(table.get("about"), str):
                message = f"rule {number} needs `about` and clauses named by one letter each"
                raise Malformed(message)
            rules[number] = Rule(number, table["about"], clauses)
        found = cls(rules, later)
        for clause in later:
            if not found.has(clause):
                message = f"`later` names {clause}, which is no clause"
                raise Malformed(message)
        return found

    def has(self, claim: str) -> bool:
        """Whether a claim names a clause, or a rule as a whole."""
        return claim in self.rules or any(claim in rule.clauses for rule in self.rules.values())


@dataclass(frozen=True)
class Test:
    """A test function and what it claims to prove."""

    path: str
    line: int
    name: str
    claims: tuple[str, ...]
    runs: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name}"


@dataclass
class Report:
    """Rules matched with tests."""

    rules: Rules
    proofs: dict[str, list[Test]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def unproven(self) -> list[str]:
        """Clauses that a test should prove today and none does."""
        every = (clause for rule in self.rules.rules.values() for clause in rule.clauses)
        return [clause for clause in every if clause not in self.proofs and clause not in self.rules.later]


def tests_in(path: str, text: str) -> Iterator[Test]:
    """The tests of one file. Raises Malformed where a `proves` comment belongs to no test."""
    comments = dict(_proves_comments(text))
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            while first > 1 and lines[first - 2].lstrip().startswith("#"):
                first -= 1
            claims = list(_claims_of_name(node.name))
            for line in range(first, (node.end_lineno or first) + 1):
                claims += comments.pop(line, [])
            yield Test(path, node.lineno, node.name, tuple(dict.fromkeys(claims)), runs=not _never_runs(node))
    if comments:
        message = f"{path}:{min(comments)}: this `proves` comment stands at no test"
        raise Malformed(message)


def match(rules: Rules, tests: list[Test]) -> Report:
    """Puts each test under the clauses that it claims."""
    report = Report(rules)
    for test in tests:
        for claim in test.claims:
            if not rules.has(claim):
                report.errors.append(f"{test} claims {claim}, which docs/semantics.toml does not know")
            elif claim in rules.rules:
                letters = ", ".join(rules.rules[claim].clauses)
                report.notes.append(f"{test} names rule {claim} as a whole and proves no clause of it ({letters})")
            elif test.runs:
                report.proofs.setdefault(claim, []).append(test)
            else:
                report.notes.append(f"{test} is skipped or expected to fail, so it does not prove {claim}")
    return report


def _proves_comments(text: str) -> Iterator[tuple[int, list[str]]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = _PROVES.match(token.string) if token.type == tokenize.COMMENT else None
        if found:
            yield token.start[0], [claim for claim in re.split(r"[,\s]+", found["claims"].strip()) if claim]


def _claims_of_name(name: str) -> Iterator[str]:
    for part in name.removeprefix("test_").split("_"):
        if not _CLAUSE.fullmatch(part):
            return
        yield part


def _never_runs(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = (ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list)
    return any(mark.endswith(("mark.skip", "mark.xfail")) for mark in marks)


def print_clauses(report: Report) -> None:
    """Every rule with its clauses and their tests."""
    for rule in report.rules.rules.values():
        print(f"\n{rule.number}  {rule.about}")
        for clause, words in rule.clauses.items():
            tests = report.proofs.get(clause, [])
            later = report.rules.later.get(clause)
            mark = "+" if tests else ("." if later else "-")
            print(f"  {mark} {clause:<5} {words}")
            for test in tests:
                print(f"          {test}")
            if later and not tests:
                print(f"          comes with {later}")


def print_summary(report: Report) -> None:
    """One line per rule."""
    print(f"{'rule':<5} {'proven':>7} {'tests':>6}  about")
    for rule in report.rules.rules.values():
        tests = {test for clause in rule.clauses for test in report.proofs.get(clause, [])}
        due = [clause for clause in rule.clauses if clause not in report.rules.later or clause in report.proofs]
        proven = sum(clause in report.proofs for clause in due)
        print(f"{rule.number:<5} {f'{proven}/{len(due)}':>7} {len(tests):>6}  {rule.about}")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Lists the promised semantics and the tests that prove them.")
    parser.add_argument("--summary", action="store_true", help="one line per rule")
    parser.add_argument("--strict", action="store_true", help="fail when a clause has no test")
    options = parser.parse_args(arguments)
    try:
        rules = Rules.parse((root / "docs/semantics.toml").read_text(encoding="utf-8"))
        paths = sorted((root / "tests/python").rglob("*.py"))
        sources = ((path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths)
        report = match(rules, [test for path, text in sources for test in tests_in(path, text)])
    except (Malformed, SyntaxError, tomllib.TOMLDecodeError) as error:
        print(f"semantics: {error}", file=sys.stderr)
        return 1
    (print_summary if options.summary else print_clauses)(report)

    total = sum(len(rule.clauses) for rule in rules.rules.values())
    unproven = report.unproven()
    waiting = sum(clause not in report.proofs for clause in rules.later)
    print(f"\n{len(rules.rules)} rules, {total} clauses: {len(report.proofs)} proven, {len(unproven)} unproven, "
          f"{waiting} wait for a later part")  # fmt: skip
    if unproven:
        print("unproven: " + " ".join(unproven))
    for line in report.notes:
        print(f"note: {line}")
    for line in report.errors:
        print(f"error: {line}", file=sys.stderr)
    return 1 if report.errors or (options.strict and unproven) else 0


if __name__ == "__main__":
    sys.exit(main())
