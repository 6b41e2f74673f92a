"""What is minimised, row by row as `crates/rl/src/learn` has it: `scripts/torch_fixtures.py` holds those gradients to these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Batch:
    """Rows to learn from."""

    observed: Any
    actions: Any
    inputs: Any
    logp: Any
    advantages: Any
    targets: Any


def scaled(advantages: Any) -> Any:
    """With mean zero and deviation one."""
    return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)


@dataclass(frozen=True)
class Clipped:
    """What PPO loses."""

    clip: float
    value_weight: float
    value_clip: float
    entropy_weight: float
    kl_weight: float
    #: Whether advantages are brought to one scale among the rows of each call.
    scales: bool = False

    def __call__(self, dist: Any, inputs: Any, values: Any, batch: Batch) -> tuple[Any, dict[str, Any]]:
        """The loss, and its parts."""
        logp, entropy, kl = dist.terms(inputs, batch.actions, batch.inputs)
        ratio = (logp - batch.logp).exp()
        bounded = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)
        advantages = scaled(batch.advantages) if self.scales else batch.advantages
        choice = -torch.minimum(advantages * ratio, advantages * bounded).mean()
        value = (values - batch.targets).pow(2).clamp(max=self.value_clip).mean()
        loss = choice + self.value_weight * value - self.entropy_weight * entropy.mean() + self.kl_weight * kl.mean()
        return loss, {"policy_loss": choice, "vf_loss": value, "entropy": entropy.mean(), "kl": kl.mean()}


@dataclass(frozen=True)
class Plain:
    """What A2C and IMPALA lose."""

    value_weight: float
    entropy_weight: float

    def __call__(self, dist: Any, inputs: Any, values: Any, batch: Batch) -> tuple[Any, dict[str, Any]]:
        """The loss, and its parts."""
        logp, entropy, kl = dist.terms(inputs, batch.actions, batch.inputs)
        choice = -(batch.advantages * logp).mean()
        value = 0.5 * (values - batch.targets).pow(2).mean()
        loss = choice + self.value_weight * value - self.entropy_weight * entropy.mean()
        return loss, {"policy_loss": choice, "vf_loss": value, "entropy": entropy.mean(), "kl": kl.mean()}


def q_targets(worth_now: Any, worth_older: Any, rewards: Any, discounts: Any, *, is_double: bool) -> Any:
    """What actions should have been worth, given what the learning and the older networks say of what is behind."""
    chosen = (worth_now if is_double else worth_older).argmax(-1, keepdim=True)
    return rewards + discounts * worth_older.gather(-1, chosen).squeeze(-1)


def q_loss(worth: Any, targets: Any, weights: Any, *, is_huber: bool) -> tuple[Any, Any]:
    """The weighted mean of the losses of these actions' worth, and how far off each was."""
    errors = worth - targets
    lost = torch.nn.functional.huber_loss(worth, targets, reduction="none") if is_huber else 0.5 * errors.pow(2)
    return (weights * lost).mean(), errors
