"""What settings must be, alone and together."""

from __future__ import annotations

import inspect
import logging
import os
from typing import TYPE_CHECKING, Any

from eagleray._common.near import hint
from eagleray.rllib._engine import custom
from eagleray.rllib.algorithms import _ranges
from eagleray.rllib.callbacks._hooks import UNCALLED
from eagleray.rllib.callbacks.callbacks import RLlibCallback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

_logger = logging.getLogger("eagleray.rllib")

_CHOICES: dict[str, tuple[Any, ...]] = {
    "batch_mode": ("truncate_episodes", "complete_episodes"),
    "evaluation_duration_unit": ("episodes", "timesteps"),
    "count_steps_by": ("env_steps", "agent_steps"),
    "grad_clip_by": ("value", "norm", "global_norm"),
    "observation_filter": ("NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter", None),
    "framework_str": ("torch", "tf", "tf2", "tfe", "jax", "native", None),
}


#: Algorithms that learn from what others did.
_OFF_POLICY = ("DQN", "SAC")

#: What RLlib has and this has not: refused, so that nobody believes in it.
_ABSENT = {
    "env_runner_cls": None,
    "learner_class": None,
    "env_to_module_connector": None,
    "module_to_env_connector": None,
    "learner_connector": None,
    "before_learn_on_batch": None,
    "remote_worker_envs": False,
    "num_atoms": 1,
    "noisy": False,
}


def known_keys(given: dict[str, Any], known: Iterable[str], where: str) -> None:
    """Refuses keys of a nested dictionary that nobody knows."""
    for name in given:
        if name not in known and not name.startswith("_"):
            raise ValueError(f"unknown key {name!r} in `{where}`.{hint(name, known)}")


def call_mapping(function: Any, agent_id: Any, episode: Any) -> Any:
    """Calls a mapping function with the arguments of its version: `(agent)`, `(agent, episode)`, with or without more."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(agent_id, episode)
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    several = len(positional) > 1 or any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in positional)
    more = {"worker": None} if takes_all else {}
    return function(agent_id, episode, **more) if several else function(agent_id, **more)


def check(config: AlgorithmConfig) -> None:
    """Refuses a configuration that cannot work, naming the setting."""
    _ranges.check(config)
    for name, choices in _CHOICES.items():
        if getattr(config, name) not in choices:
            raise ValueError(f"`{name}` must be one of {[c for c in choices if c]}, not {getattr(config, name)!r}")
    length = config.rollout_fragment_length
    if length != "auto" and (not isinstance(length, int) or length <= 0):
        raise ValueError(f'`rollout_fragment_length` must be a whole number > 0 or "auto", not {length!r}')
    for name, default in _ABSENT.items():
        if getattr(config, name, default) != default:
            raise ValueError(f"`{name}` is not available here: leave it at {default!r}")
    if config.grad_clip is not None and config.grad_clip_by != "global_norm":
        raise ValueError('`grad_clip_by` must be "global_norm": gradients are clipped as one vector here')
    _check_offline(config)
    _check_evaluation(config)
    check_policies(config)
    _check_callbacks(config)
    if config.num_learners > 1:
        raise ValueError("`num_learners` > 1 is not available: one learner uses the cores of this machine")
    is_custom = custom.check(config)
    if (config.num_gpus or config.num_gpus_per_learner) and not is_custom:
        _logger.warning("the built-in networks learn on the CPU: `num_gpus` and `num_gpus_per_learner` change nothing")


def _check_offline(config: AlgorithmConfig) -> None:
    given, output = config.input_, config.output
    if not isinstance(given, str | os.PathLike | list | tuple) and not callable(given):
        raise ValueError(f"`input_` must be a folder, files, or a function that makes a reader, not {given!r}")
    if given != "sampler" and not callable(given) and config.ENGINE not in _OFF_POLICY:
        raise ValueError(
            f"{config.ENGINE} learns from what its own policy does, not from files: use one of {', '.join(_OFF_POLICY)}"
        )
    if given != "sampler" and config.is_multi_agent:
        raise ValueError("`input_` is for one policy: those of several agents cannot be read")
    if output is not None and not isinstance(output, str | os.PathLike):
        raise ValueError(f"`output` must be a folder, not {output!r}")
    if output == "logdir":
        raise ValueError("`output` must be a folder: runners do not know the one of the results")


def _check_evaluation(config: AlgorithmConfig) -> None:
    interval, duration = config.evaluation_interval, config.evaluation_duration
    if interval is not None and (not isinstance(interval, int) or interval < 0):
        raise ValueError(f"`evaluation_interval` must be a whole number > 0 or None, not {interval!r}")
    if duration == "auto":
        if not config.evaluation_parallel_to_training:
            raise ValueError('`evaluation_duration="auto"` needs `evaluation_parallel_to_training=True`')
    elif not isinstance(duration, int) or duration <= 0:
        raise ValueError(f'`evaluation_duration` must be a whole number > 0 or "auto", not {duration!r}')
    if config.evaluation_parallel_to_training and config.evaluation_num_env_runners == 0:
        raise ValueError("`evaluation_parallel_to_training` needs `evaluation_num_env_runners` > 0")


def _check_callbacks(config: AlgorithmConfig) -> None:
    given = config.callbacks_class
    for one in given if isinstance(given, list | tuple) else [given]:
        kind = one if isinstance(one, type) else type(one)
        if getattr(kind, UNCALLED, None) not in (None, getattr(RLlibCallback, UNCALLED)):
            _logger.warning("%s.%s is not called here; on_sample_end has the steps as columns", kind.__name__, UNCALLED)


def check_policies(config: AlgorithmConfig) -> None:
    """Refuses policies of which there are none, and what names one that is not there."""
    names = set(config.policy_specs())
    if not names:
        raise ValueError("`policies` must name at least one policy")
    if config.ENGINE == "ES" and config.is_multi_agent:
        raise ValueError(
            f"`policies` names {sorted(names)}: ES moves the weights of one policy, `default_policy`. Leave `policies` out, or use PPO"
        )
    chosen = config.policies_to_train
    if chosen is not None and not callable(chosen):
        for name in chosen:
            if name not in names:
                raise ValueError(
                    f"`policies_to_train` names {name!r}, which is none of {sorted(names)}.{hint(name, names)}"
                )
    for name in config.algorithm_config_overrides_per_module:
        if name not in names:
            text = f"`algorithm_config_overrides_per_module` names {name!r}, which is none of {sorted(names)}."
            raise ValueError(text + hint(str(name), names))
