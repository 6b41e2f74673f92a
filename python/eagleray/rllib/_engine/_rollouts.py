"""Rollouts as columns of numpy, for programs that look into what is learned from. Learners read them as they are.

A native rollout is read from the form in which it travels: fields in the order of `crates/rl/src/rollout.rs`, numbers as varints, lists with their
length before them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagleray.rllib._engine._filters import Filtered

#: Columns in the order in which they travel, and the type of what is in them.
_WRITTEN = (
    ("obs", np.float32),
    ("actions", np.float32),
    ("action_dist_inputs", np.float32),
    ("action_logp", np.float32),
    ("vf_preds", np.float32),
    ("rewards", np.float32),
    ("terminateds", np.bool_),
    ("truncateds", np.bool_),
)
#: The same columns of models of a program's own.
_OWN = ("observed", "actions", "inputs", "logp", "values", "rewards", "terminated", "truncated")


def columns_of(rollout: Any) -> dict[str, Any]:
    """Its columns by RLlib's names, the steps of one environment after those of another. What an algorithm does not write is left out."""
    if isinstance(rollout, Filtered):
        rollout = rollout.native
    if hasattr(rollout, "observed"):
        steps, envs = rollout.rewards.shape
        found = {name: getattr(rollout, own) for (name, _), own in zip(_WRITTEN, _OWN, strict=True)}
    else:
        _, (data,) = rollout.__reduce__()
        steps, at = _number(data, 0)
        envs, at = _number(data, at)
        found = {}
        for name, kind in _WRITTEN:
            length, at = _number(data, at)
            found[name] = np.frombuffer(data, kind, length, at)
            at += length * np.dtype(kind).itemsize
    return {
        name: column.reshape(steps, envs, -1).swapaxes(0, 1).reshape(steps * envs, -1)
        for name, column in found.items()
        if column.size
    }


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
