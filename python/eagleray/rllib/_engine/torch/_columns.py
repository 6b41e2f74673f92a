"""What environments did under a policy, as columns, and how much better each action was than expected.

The columns and what ends of episodes mean are those of `crates/rl/src/rollout.rs` and `advantage.rs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Flags, Floats


@dataclass
class Columns:
    """Steps of environments side by side: every column has steps first, then environments."""

    observed: Floats
    actions: Floats
    inputs: Floats
    logp: Floats
    values: Floats
    rewards: Floats
    terminated: Flags
    truncated: Flags
    #: Of steps that no other of this rollout follows: what the state behind is worth. Zero behind an episode's own end.
    following: Floats
    #: Steps and environments at which an episode was cut off, and what was seen last there.
    cut: Any
    last: Floats
    #: What is seen behind the last step, by environment.
    open: Floats
    #: What the runner's filter has seen in it.
    delta: bytes | None = None

    @property
    def steps(self) -> int:
        """Steps in it, over all its environments."""
        return int(self.rewards.size)

    def behind(self) -> Floats:
        """What was seen behind steps that no other follows: of episodes that were cut off, then of those that are open."""
        return np.concatenate([self.last, self.open])

    def following_of(self, values: Floats) -> Floats:
        """The column of what follows, given what those states are worth."""
        following = np.zeros_like(self.rewards)
        cuts = len(self.last)
        following[self.cut[:, 0], self.cut[:, 1]] = values[:cuts]
        is_open = ~(self.terminated[-1] | self.truncated[-1])
        following[-1, is_open] = values[cuts:][is_open]
        return following


def _nexts(columns: Columns, values: Floats, following: Floats) -> tuple[Floats, Flags]:
    """What the state behind each step is worth, and whether an episode ended with it."""
    ends = columns.terminated | columns.truncated
    nexts = following.copy()
    nexts[:-1] = np.where(ends[:-1], following[:-1], values[1:])
    nexts[columns.terminated] = 0.0
    return nexts, ends


def generalised(columns: Columns, gamma: float, lambda_: float) -> tuple[Floats, Floats]:
    """Generalised advantages, and what values should have been."""
    nexts, ends = _nexts(columns, columns.values, columns.following)
    deltas = columns.rewards + np.float32(gamma) * nexts - columns.values
    keeps = np.where(ends, np.float32(0.0), np.float32(gamma * lambda_))
    advantages = np.empty_like(deltas)
    running = np.zeros_like(deltas[0])
    for step in range(len(deltas) - 1, -1, -1):
        running = deltas[step] + keeps[step] * running
        advantages[step] = running
    return advantages, advantages + columns.values


@dataclass(frozen=True)
class Trust:
    """How far V-trace trusts what an older policy did."""

    gamma: float
    rho_max: float
    rho_max_choice: float


def v_trace(columns: Columns, ratios: Floats, values: Floats, following: Floats, trust: Trust) -> tuple[Floats, Floats]:
    """Advantages and targets from steps of an older policy, given what the newest networks say of them."""
    nexts, ends = _nexts(columns, values, following)
    gamma = np.float32(trust.gamma)
    deltas = np.minimum(ratios, trust.rho_max) * (columns.rewards + gamma * nexts - values)
    keeps = np.where(ends, np.float32(0.0), gamma * np.minimum(ratios, np.float32(1.0)))
    choice = np.minimum(ratios, trust.rho_max_choice)
    advantages, targets = np.empty_like(deltas), np.empty_like(deltas)
    running = np.zeros_like(deltas[0])
    for step in range(len(deltas) - 1, -1, -1):
        behind = np.where(ends[step], np.float32(0.0), running)
        advantages[step] = choice[step] * (columns.rewards[step] + gamma * (nexts[step] + behind) - values[step])
        running = deltas[step] + keeps[step] * running
        targets[step] = values[step] + running
    return advantages.astype(np.float32), targets.astype(np.float32)


def explained(values: Floats, targets: Floats) -> float:
    """How much of the targets' variance the values explain."""
    whole = float(np.var(targets.astype(np.float64)))
    rest = float(np.var((targets - values).astype(np.float64)))
    return max(-1.0, 1.0 - rest / whole) if whole > 0.0 else -1.0
