"""Observations and rewards on one scale: what runners have seen travels with rollouts, what all have seen with the weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray._native import rl
    from eagleray.rllib._engine.protocol import Plan

#: Begins weights that come with what was seen.
_MARK = b"eagleray filter\n"


def spec_of(plan: Plan) -> str | None:
    """What is brought to scale, as the native side wants it; None for nothing."""
    observes = _is_on(plan.settings.get("observation_filter"))
    rewards = _is_on(plan.settings.get("reward_filter"))
    if not (observes or rewards):
        return None
    gamma = float(plan.settings.get("gamma", 0.99))
    return json.dumps(
        {"observes": observes, "rewards": rewards, "observed_max": 10.0, "reward_max": 10.0, "gamma": gamma}
    )


def _is_on(name: Any) -> bool:
    return name not in (None, "", "NoFilter")


def joined(moments: bytes | None, weights: bytes) -> bytes:
    """Weights, with what was seen before them."""
    if moments is None:
        return weights
    return _MARK + len(moments).to_bytes(8, "little") + moments + weights


def parted(blob: bytes) -> tuple[bytes | None, bytes]:
    """What was seen, if it came with them, and the weights."""
    if not blob.startswith(_MARK):
        return None, blob
    begin = len(_MARK) + 8
    end = begin + int.from_bytes(blob[len(_MARK) : begin], "little")
    return blob[begin:end], blob[end:]


@dataclass(frozen=True)
class Filtered:
    """A rollout, and what its runner saw in it."""

    native: rl.Rollout
    delta: bytes

    @property
    def steps(self) -> int:
        """Steps in it, over all its environments."""
        return self.native.steps
