"""Plans as the native side wants them: JSON of networks and settings."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eagleray.rllib._engine.protocol import Acted, Plan

#: What stands for no bound: JSON has no infinity.
UNBOUNDED = 3.0e38

#: What parameters are before training, by the names of `fcnet_kernel_initializer`.
_STARTS = {"orthogonal_": "orthogonal", "torch_default": "uniform"}

_ACTIVATIONS = {"tanh": "tanh", "relu": "relu", "linear": "linear", None: "linear"}


def spaces_of(acted: Acted) -> dict[str, Any]:
    """What is chosen."""
    if acted.kind != "discrete":
        low = [max(-UNBOUNDED, value) for value in acted.low] or [-UNBOUNDED] * acted.size
        high = [min(UNBOUNDED, value) for value in acted.high] or [UNBOUNDED] * acted.size
        bounds = {"low": low, "high": high}
        return {"Box": bounds} if acted.kind == "box" else {"Mixed": {"counts": list(acted.choices), **bounds}}
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


def _start(model: Mapping[str, Any], otherwise: str) -> str:
    """What parameters are before training."""
    given = model.get("fcnet_kernel_initializer") or model.get("fcnet_weights_initializer")
    if given is None:
        return otherwise
    if given not in _STARTS:
        known = " or ".join(repr(name) for name in _STARTS)
        raise ValueError(f"fcnet_kernel_initializer={given!r} is not built in: choose {known}")
    return _STARTS[given]


def _sde(plan: Plan, model: Mapping[str, Any], log_std: float) -> dict[str, Any] | None:
    """How noise depends on the state, if it does."""
    if not model.get("use_sde"):
        return None
    if plan.acted.kind != "box":
        raise ValueError(
            "use_sde=True is noise of numbers (a Box space): leave it out where one of several actions is chosen"
        )
    every, given = int(model.get("sde_sample_freq", -1)), model.get("log_std_init")
    if every == 0 or every < -1:
        raise ValueError(f"`sde_sample_freq` must be > 0, or -1 for once a rollout, not {every}")
    return {"every": None if every == -1 else every, "log_std": log_std if given is None else float(given)}


def remembers(plan: Plan) -> bool:
    """Whether the networks have a memory."""
    return bool(plan.model.get("use_lstm"))


def actor_critic(plan: Plan) -> str:
    """The networks that choose and value."""
    model = plan.model
    said: dict[str, Any] = {
        "observed": plan.observed.size,
        "acted": spaces_of(plan.acted),
        "hiddens": list(model.get("fcnet_hiddens", [256, 256])) + list(model.get("head_fcnet_hiddens") or []),
        "activation": activation_of(model),
        "free_log_std": bool(model.get("free_log_std", False)),
        "image": _image(plan, model),
    }
    more: dict[str, Any]
    start, sde = _start(model, "orthogonal"), _sde(plan, model, 0.0)
    if remembers(plan):
        if sde or start != "orthogonal":
            raise ValueError("use_lstm=True goes neither with use_sde=True nor with another start than 'orthogonal_'")
        more = {"cells": int(model.get("lstm_cell_size", 256)), "steps_max": int(model.get("max_seq_len", 20))}
    else:
        more = {"is_shared": bool(model.get("vf_share_layers", False)), "sde": sde, "start": start}
    return json.dumps(said | more)


def _image(plan: Plan, model: Mapping[str, Any]) -> dict[str, Any] | None:
    """How pictures are looked at: by the filters that were given, or by our own if they are large. Others are rows of numbers."""
    if len(plan.observed.shape) != 3:
        return None
    filters = model.get("conv_filters") or _filters_for(plan.observed.shape)
    if not filters:
        return None
    height, width, channels = plan.observed.shape
    return {"height": height, "width": width, "channels": channels, "conv_filters": [_filter(one) for one in filters]}


def _filters_for(shape: tuple[int, ...]) -> list[list[int]] | None:
    """Filters for a picture that came without: each halves it, until few places are left. None for small ones, and for what is no picture."""
    height, width, channels = shape
    if min(height, width) < _PICTURE_MIN or channels > _CHANNELS_MAX:
        return None
    filters, side = [], min(height, width)
    for outputs in (16, 32, 64, 64):
        if side < _FILTER:
            break
        filters.append([outputs, _FILTER, 2])
        side = (side - _FILTER) // 2 + 1
    return filters


#: Sides of a picture from which on filters are used unasked.
_PICTURE_MIN = 24
#: Height and width of a filter.
_FILTER = 4
#: Colours, or a few frames of them; more is something else.
_CHANNELS_MAX = 16


def _filter(given: Any) -> list[int]:
    channels, kernel, stride = given
    sizes = [kernel if isinstance(kernel, int) else kernel[0], stride if isinstance(stride, int) else stride[0]]
    return [int(channels), *map(int, sizes)]


def soft(plan: Plan) -> str:
    """The networks of soft actor-critic."""
    if plan.acted.kind != "box":
        raise ValueError(f"{plan.algorithm} chooses numbers (a Box space); for others use DQN or PPO")
    policy = plan.settings.get("policy_model_config") or plan.model
    # Actions come between -1 and 1 and whoever steps the environments spreads them, or they are the environment's own.
    bounds = {"low": [-1.0] * plan.acted.size, "high": [1.0] * plan.acted.size}
    if not plan.settings.get("normalize_actions", True):
        bounds = {"low": list(plan.acted.low), "high": list(plan.acted.high)}
        if not all(map(math.isfinite, bounds["low"] + bounds["high"])):
            raise ValueError(f"{plan.algorithm} without `normalize_actions` needs actions with bounds, not {bounds}")
    critic = plan.settings.get("q_model_config") or plan.model
    return json.dumps(
        {
            "observed": plan.observed.size,
            "hiddens": list(policy.get("fcnet_hiddens", [256, 256])),
            "critic_hiddens": list(critic.get("fcnet_hiddens", [256, 256])),
            "activation": activation_of(policy),
            "is_twin": bool(plan.settings.get("twin_q", True)),
            "image": _image(plan, {**plan.model, **policy}),
            # Smaller than those that policy gradients begin with, as everywhere for this algorithm.
            "start": _start({**plan.model, **policy}, "uniform"),
            "sde": _sde(plan, {**plan.model, **policy}, -3.0),
            **bounds,
        }
    )


def q_function(plan: Plan) -> str:
    """The networks that say what actions are worth."""
    if plan.acted.kind != "discrete" or len(plan.acted.sizes) != 1:
        raise ValueError(
            f"{plan.algorithm} chooses one of several actions (a Discrete space); for others use PPO or SAC"
        )
    model = plan.model
    _sde(plan, model, 0.0)  # refused
    return json.dumps(
        {
            "observed": plan.observed.size,
            "start": _start(model, "uniform"),
            "actions": plan.acted.sizes[0],
            "hiddens": list(model.get("fcnet_hiddens", [256, 256])),
            "activation": activation_of(model),
            "heads": list(plan.settings.get("hiddens") or []),
            "is_dueling": bool(plan.settings.get("dueling", True)),
            "image": _image(plan, model),
        }
    )


#: Of each algorithm: what its policy is, and how the native side is told of it.
_KINDS: dict[str, tuple[str, Callable[[Plan], str]]] = {
    **dict.fromkeys(("PPO", "A2C", "IMPALA", "ES"), ("actor_critic", actor_critic)),
    "DQN": ("q", q_function),
    "SAC": ("soft", soft),
}


def described(plan: Plan) -> tuple[str, str]:
    """What kind of networks a policy has, and which."""
    kind, model = _KINDS[plan.algorithm]
    return "recurrent" if kind == "actor_critic" and remembers(plan) else kind, model(plan)


def optimiser(settings: Mapping[str, Any]) -> str:
    """What moves the parameters."""
    if settings.get("opt_type", "adam") == "adam":
        return json.dumps({"adam": {"epsilon": float(settings.get("adam_epsilon", 1e-8))}})
    numbers = {"decay": settings["decay"], "momentum": settings["momentum"], "epsilon": settings["epsilon"]}
    return json.dumps({"rmsprop": {**numbers, "is_tf_like": False}})


def threads() -> int:
    """Threads that a learner may use: in a driver as it has cores, in tasks and actors (such as trials) as they hold CPUs.

    Not many, as minibatches are small. Threads without a core of their own would wait for each other's turn.
    """
    return max(1, min(4, len(os.sched_getaffinity(0)), _cpus_held()))


def _cpus_held() -> int:
    import eagleray

    if not eagleray.is_initialized():
        return 4
    context = eagleray.get_runtime_context()
    if context.get_actor_id() is None and context.get_task_id() is None:
        return 4
    return int(context.get_assigned_resources().get("CPU", 0))
