"""Plans as the native side wants them: JSON of networks and settings."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagleray.rllib._engine.protocol import Acted, Plan

#: What stands for no bound: JSON has no infinity.
UNBOUNDED = 3.0e38

_ACTIVATIONS = {"tanh": "tanh", "relu": "relu", "linear": "linear", None: "linear"}


def spaces_of(acted: Acted) -> dict[str, Any]:
    """What is chosen."""
    if acted.kind == "box":
        low = [max(-UNBOUNDED, value) for value in acted.low] or [-UNBOUNDED] * acted.size
        high = [min(UNBOUNDED, value) for value in acted.high] or [UNBOUNDED] * acted.size
        return {"Box": {"low": low, "high": high}}
    if len(acted.sizes) == 1:
        return {"Discrete": acted.sizes[0]}
    return {"MultiDiscrete": list(acted.sizes)}


def activation_of(model: Mapping[str, Any], name: str = "fcnet_activation") -> str:
    """What hidden layers do with their sums."""
    given = model.get(name, "tanh")
    found = _ACTIVATIONS.get(given)
    if found is None:
        known = ", ".join(repr(name) for name in _ACTIVATIONS if name)
        raise ValueError(
            f"{name}={given!r} is not built in: choose one of {known}, or use framework='torch' with a model of your own"
        )
    return found


def actor_critic(plan: Plan) -> str:
    """The networks that choose and value."""
    model = plan.model
    return json.dumps(
        {
            "observed": plan.observed.size,
            "acted": spaces_of(plan.acted),
            "hiddens": list(model.get("fcnet_hiddens", [256, 256])) + list(model.get("head_fcnet_hiddens") or []),
            "activation": activation_of(model),
            "is_shared": bool(model.get("vf_share_layers", False)),
            "free_log_std": bool(model.get("free_log_std", False)),
        }
    )


def q_function(plan: Plan) -> str:
    """The networks that say what actions are worth."""
    if plan.acted.kind != "discrete" or len(plan.acted.sizes) != 1:
        raise ValueError(
            f"{plan.algorithm} chooses one of several actions (a Discrete space); for others use PPO or SAC"
        )
    model = plan.model
    return json.dumps(
        {
            "observed": plan.observed.size,
            "actions": plan.acted.sizes[0],
            "hiddens": list(model.get("fcnet_hiddens", [256, 256])),
            "activation": activation_of(model),
            "heads": list(plan.settings.get("hiddens") or []),
            "is_dueling": bool(plan.settings.get("dueling", True)),
        }
    )


def threads() -> int:
    """Threads that a learner may use: the cores this process may run on, but not many, as minibatches are small."""
    return min(4, len(os.sched_getaffinity(0)))
