"""A whole comparison: what was measured, as a JSON file and as tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import machine
from cases import CASES, Case
from outcome import Outcome
from systems import SYSTEMS
from table import cell, figure, markdown, plain, times

OURS, REFERENCE = "eagleray", "ray"


@dataclass
class Comparison:
    """Everything measured in one run."""

    machine: dict[str, Any]
    seconds: float
    turns: int
    strangers: list[int]
    versions: dict[str, str] = field(default_factory=dict)
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    # By number of strangers, case, system.
    cases: dict[int, dict[str, dict[str, Outcome]]] = field(default_factory=dict)
    weights: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, *, strangers: list[int], seconds: float, turns: int) -> Comparison:
        """An empty comparison on this machine, now."""
        return cls(machine.describe(), seconds, turns, strangers)

    def outcomes(self, case: str, beside: int) -> dict[str, Outcome]:
        """The outcomes of one case, by system; to be filled."""
        return self.cases.setdefault(beside, {}).setdefault(case, {})

    def write(self, path: Path) -> None:
        """Write it all; each figure's median and the ratio to Ray are added for the reader."""
        fields = asdict(self)
        for beside, cases in self.cases.items():
            for name, outcomes in cases.items():
                entry = fields["cases"][beside][name]
                for system, outcome in outcomes.items():
                    entry[system]["median"] = outcome.value
                fields["cases"][beside][name] = {
                    "title": CASES[name].title,
                    "unit": CASES[name].unit,
                    "times_ray": ratio(CASES[name], outcomes),
                    "systems": entry,
                }
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(fields, indent=1) + "\n")
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> Comparison:
        """The inverse of `write`."""
        fields = json.loads(path.read_text())
        fields["cases"] = {
            int(beside): {name: _outcomes(entry["systems"]) for name, entry in cases.items()}
            for beside, cases in fields["cases"].items()
        }
        return cls(**fields)


def ratio(case: Case, outcomes: dict[str, Outcome]) -> float | None:
    """How many times better eagleray is than Ray."""
    ours = outcomes[OURS].value if OURS in outcomes else None
    theirs = outcomes[REFERENCE].value if REFERENCE in outcomes else None
    return case.times_better(ours, theirs) if ours and theirs else None


def render(comparison: Comparison, *, as_markdown: bool) -> str:
    """All tables, one under the other."""
    table = markdown if as_markdown else plain
    title = "### {}" if as_markdown else "{}"
    parts = []
    for beside, cases in sorted(comparison.cases.items()):
        parts.append(title.format(f"Beside {beside} CPU-bound strangers" if beside else "Calls and objects"))
        parts.append(table(*_case_table(comparison, cases, beside)))
    if comparison.limits:
        parts.append(title.format("Limits of the machine"))
        parts.append(table(*_limit_table(comparison)))
        parts += _share_of_copy(comparison)
    if comparison.weights:
        parts.append(title.format("Weight"))
        parts.append(table(*_weight_table(comparison)))
    parts += _errors(comparison)
    parts += comparison.notes
    versions = ", ".join(f"{system} {version}" for system, version in comparison.versions.items())
    how = f"Median of rounds, {comparison.seconds:g} s per case, {comparison.turns} turns."
    parts.append(f"{machine.in_words(comparison.machine)}. {how} {versions}.")
    return "\n\n".join(parts)


def _case_table(
    comparison: Comparison, cases: dict[str, dict[str, Outcome]], beside: int
) -> tuple[list[str], list[list[str]]]:
    others = [system for system in SYSTEMS if system in comparison.versions and system not in (OURS, REFERENCE)]
    rows = []
    for name, outcomes in cases.items():
        case = CASES[name]
        row = [case.title, case.unit, cell(outcomes.get(OURS)), cell(outcomes.get(REFERENCE))]
        row += [times(ratio(case, outcomes)), goal(case, beside), *(cell(outcomes.get(system)) for system in others)]
        rows.append(row)
    return ["case", "unit", OURS, REFERENCE, "ratio", "goal", *others], rows


def goal(case: Case, beside: int = 0) -> str:
    """What was promised: times Ray, then the absolute figure, which is meant for a machine without strangers."""
    if beside:
        return times(case.goal_times_ray_beside)
    absolute = [] if case.goal is None else [figure(case.goal)]
    return ", ".join([times(case.goal_times_ray), *absolute])


def _limit_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    rows = [
        [limit["title"], figure(limit["value"]), limit["unit"], limit["how"]] for limit in comparison.limits.values()
    ]
    return ["limit", "value", "unit", "how"], rows


def _share_of_copy(comparison: Comparison) -> list[str]:
    """The large put, as a share of what a plain copy reaches."""
    outcomes = comparison.cases.get(0, {}).get("large_put", {})
    shares = [
        f"{system} {100 * outcome.value / comparison.limits['copy']['value']:.0f} %"
        for system, outcome in outcomes.items()
        if outcome.value
    ]
    return [f"Put of 100 MiB as a share of a plain copy: {', '.join(shares)}."] if shares else []


def _weight_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    heads = ["weight", "processes", "daemons RSS less shm", "daemons private", "driver +private at init"]
    heads += ["driver +anonymous at init", "private per worker", "RSS of all", "idle CPU %", "installed"]
    rows = []
    for system, weight in comparison.weights.items():
        memories = [weight["daemons"], weight["driver"], weight["workers"]]
        values = [weight["processes"], weight["daemons"]["rss_less_shared_memory"], weight["daemons"]["private"]]
        values += [weight["driver_growth_at_init"]["private"], weight["driver_growth_at_init"]["anonymous"]]
        values += [weight["worker_private_each"], sum(memory["rss"] for memory in memories)]
        values += [weight["idle_cpu_percent"], weight["installed_mib"]]
        rows.append([f"{system}, MiB", *(figure(value) for value in values)])
    return heads, rows


def _errors(comparison: Comparison) -> list[str]:
    return [
        f"{CASES[name].title}, {system}"
        + (f", beside {beside} strangers" if beside else "")
        + f": {outcome.short_error}"
        for beside, cases in sorted(comparison.cases.items())
        for name, outcomes in cases.items()
        for system, outcome in outcomes.items()
        if outcome.error
    ]


def _outcomes(systems: dict[str, dict[str, Any]]) -> dict[str, Outcome]:
    known = Outcome.__dataclass_fields__
    return {
        system: Outcome(**{key: value for key, value in entry.items() if key in known})
        for system, entry in systems.items()
    }
