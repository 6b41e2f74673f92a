"""Our rewards beside Stable-Baselines3's: `python rl_compare.py OURS.json [PEER.json] [--curves docs/rewards.svg]`.

A seed's score is the mean return of its greedy episodes after training. Of each case: the interquartile mean of the
scores of both sides, and their difference with the interval that 95 % of resampled sets of seeds fall into. Whether that
interval includes 0 is all that so few seeds can say. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_curves import draw
from rl_reward_cases import CASES

PEER = Path(__file__).resolve().parent / "results" / "sb3_rewards.json"
RESAMPLES = 10_000
SHARE = 0.95


@dataclass(frozen=True)
class Compared:
    """One case."""

    name: str
    ours: list[float]
    peers: list[float]
    low: float
    high: float
    #: Where a side did not get to its end: so many steps of training instead, and the mean return while it trained.
    training_at: int | None = None

    @property
    def difference(self) -> float:
        return iqm(self.ours) - iqm(self.peers)

    @property
    def verdict(self) -> str:
        if self.low <= 0.0 <= self.high:
            return "includes 0"
        return "favours us" if self.low > 0.0 else "favours the peer"


def iqm(scores: Sequence[float]) -> float:
    """The mean without the lowest and the highest quarter, as many whole scores as that is."""
    ordered = sorted(scores)
    cut = len(ordered) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def interval(ours: Sequence[float], peers: Sequence[float], chance: random.Random) -> tuple[float, float]:
    """Where the difference lies in 95 % of sets of seeds drawn anew, from each side by itself."""
    found = sorted(
        iqm(chance.choices(ours, k=len(ours))) - iqm(chance.choices(peers, k=len(peers))) for _ in range(RESAMPLES)
    )
    beyond = (1.0 - SHARE) / 2.0
    return found[math.floor(beyond * RESAMPLES)], found[math.ceil((1.0 - beyond) * RESAMPLES) - 1]


def compare(ours: dict[str, Any], peers: dict[str, Any]) -> list[Compared]:
    """All cases that both sides have finished from at least two seeds."""
    if ours["share"] != peers["share"]:
        raise ValueError(f"budgets differ: {ours['share']} of the cases' here, {peers['share']} there")
    compared = []
    for name in CASES:
        mine, theirs = scores(ours, name), scores(peers, name)
        at = None
        if len(mine) > len(theirs):
            mine, theirs, at = of_training(ours, peers, name)
        if len(mine) > 1 and len(theirs) > 1:
            compared.append(Compared(name, mine, theirs, *interval(mine, theirs, random.Random(name)), at))
    return compared


def of_training(ours: dict[str, Any], peers: dict[str, Any], case: str) -> tuple[list[float], list[float], int]:
    """The mean returns of the last hundred episodes of training, after as many steps as every seed of both sides has seen."""
    curves = [[job["curve"] for job in side["jobs"] if job["case"] == case] for side in (ours, peers)]
    at = min((curve[-1][0] for side in curves for curve in side if curve), default=0)
    mine, theirs = ([max(point for point in curve if point[0] <= at)[1] for curve in side] for side in curves)
    return mine, theirs, at


def alone(ours: dict[str, Any]) -> str:
    """What no peer has: the interquartile mean and the interval of sets of seeds drawn anew. As Markdown."""
    lines = ["| case | steps | eagleray | 95 % interval | seeds |", "| --- | --: | --: | --: | --: |"]
    for name, case in CASES.items():
        found = scores(ours, name)
        if case.has_peer or len(found) < 2:
            continue
        # Beside a peer whose scores are all zero.
        low, high = interval(found, [0.0], random.Random(name))
        cells = [f"{case.algorithm}, {case.environment}", f"{case.steps:,}", number(iqm(found))]
        lines.append("| " + " | ".join([*cells, f"{number(low)} to {number(high)}", str(len(found))]) + " |")
    return "\n".join(lines)


def scores(results: dict[str, Any], case: str) -> list[float]:
    return [job["score"] for job in results["jobs"] if job["case"] == case and job["complete"]]


def table(compared: Sequence[Compared]) -> str:
    """As Markdown."""
    lines = [
        "| case | steps | eagleray | SB3 | difference | 95 % interval | |",
        "| --- | --: | --: | --: | --: | --: | --- |",
    ]
    for one in compared:
        case = CASES[one.name]
        seeds = f"{len(one.ours)}" if len(one.ours) == len(one.peers) else f"{len(one.ours)} and {len(one.peers)}"
        cells = [
            f"{case.algorithm}, {case.environment}",
            f"{case.steps:,}" if one.training_at is None else f"{one.training_at:,}, while training",
            number(iqm(one.ours)),
            number(iqm(one.peers)),
        ]
        cells += [number(one.difference), f"{number(one.low)} to {number(one.high)}", f"{one.verdict} ({seeds} seeds)"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:.1f}".replace("-0.0", "0.0")


def missing(ours: dict[str, Any], peers: dict[str, Any]) -> list[str]:
    """Jobs that a side has not, or not to its end."""
    said: list[str] = []
    of: Callable[[dict[str, Any]], dict[tuple[str, int], Any]]
    of = lambda results: {(job["case"], job["seed"]): job for job in results["jobs"]}  # noqa: E731
    for who, results, other in (("eagleray", ours, peers), ("SB3", peers, ours)):
        have = of(results)
        for case, seed in sorted(of(other).keys() | have.keys()):
            job = have.get((case, seed))
            if case in CASES and not CASES[case].has_peer and who == "SB3":
                continue
            if job is None:
                said.append(f"{who} has not run {case} seed {seed}")
            elif not job["complete"]:
                said.append(f"{who} ended {case} seed {seed} after {job['steps']} steps")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description="Lays our rewards beside Stable-Baselines3's.")
    parser.add_argument("ours", type=Path)
    parser.add_argument("peer", type=Path, nargs="?", default=PEER)
    parser.add_argument("--curves", type=Path, help="an SVG file of the training curves")
    options = parser.parse_args()
    ours, peers = json.loads(options.ours.read_text()), json.loads(options.peer.read_text())
    print(table(compare(ours, peers)))
    print()
    print(alone(ours))
    for line in missing(ours, peers):
        print(f"- {line}")
    if options.curves:
        options.curves.write_text(draw({"eagleray": ours, "Stable-Baselines3": peers}))


if __name__ == "__main__":
    main()
