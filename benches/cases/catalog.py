"""What a case is, and the list that the modules of this folder fill by decorating their functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from measure import Job

# `ray` or `eagleray`: the same code runs on both, so no narrower type can be named here.
Ray = Any
CaseFunction = Callable[[Ray], Job]

BATCH = 1_000
MIB = 1 << 20
GOAL_BESIDE_STRANGERS = 30.0
CALL_UNITS = ("calls/s", "tasks/s", "drains/s", "steps/s")


@dataclass(frozen=True)
class Case:
    """One measured thing: its words, its unit, how much one repeat does, and what eagleray has promised.

    A round never has fewer than `repeats_min` repeats, for work whose cost comes in bursts.
    """

    name: str
    title: str
    unit: str
    amount: float
    repeats_min: int
    needs_session: bool
    goal: float | None
    goal_times_ray: float | None
    prepare: CaseFunction

    @property
    def lower_is_better(self) -> bool:
        """Durations shrink, rates grow."""
        return self.unit == "s"

    @property
    def goal_times_ray_beside(self) -> float | None:
        """The goal beside two CPU-bound strangers; set for calls, not for objects, starting or the life of actors."""
        is_call = self.unit in CALL_UNITS and (self.goal_times_ray or 0) >= GOAL_BESIDE_STRANGERS
        return GOAL_BESIDE_STRANGERS if is_call else None

    def value(self, seconds_per_repeat: float) -> float:
        """The figure to print, from the time of one repeat."""
        return seconds_per_repeat if self.lower_is_better else self.amount / seconds_per_repeat

    def times_better(self, ours: float, theirs: float) -> float:
        """How many times better ours is than theirs."""
        return theirs / ours if self.lower_is_better else ours / theirs


CASES: dict[str, Case] = {}


def case(
    title: str,
    *,
    unit: str = "calls/s",
    amount: float = 1,
    repeats_min: int = 1,
    needs_session: bool = True,
    goal: float | None = None,
    goal_times_ray: float | None = None,
    into: dict[str, Case] = CASES,
) -> Callable[[CaseFunction], CaseFunction]:
    """Enter the decorated function into a list under its own name. A goal is a figure of its own, a multiple of Ray's, or both."""

    def enter(function: CaseFunction) -> CaseFunction:
        name = function.__name__
        assert name not in into, f"two cases are called {name}"
        into[name] = Case(name, title, unit, amount, repeats_min, needs_session, goal, goal_times_ray, function)
        return function

    return enter
