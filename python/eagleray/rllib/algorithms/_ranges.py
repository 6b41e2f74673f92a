"""What values settings may have: whole numbers and others, between bounds, of the configuration itself and of its nested dictionaries.

A value that no bound refuses but that the engine cannot work with would show as an error of its JSON reader, with a column and no name.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagleray._common.near import hint
from eagleray.rllib.algorithms._settings import MODEL_DEFAULTS
from eagleray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from eagleray.rllib.utils.schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; with `is_open` more than `low`."""

    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False
    is_whole: bool = False
    or_none: bool = False
    #: Whether infinity is a value: "no bound", where RLlib's programs say so.
    or_infinite: bool = False

    def __str__(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        if self.high < math.inf:
            kind += f" in {'(' if self.is_open else '['}{self.low:g}, {self.high:g}]"
        elif self.low > -math.inf:
            kind += f" {'>' if self.is_open else '>='} {self.low:g}"
        return kind + (" or None" if self.or_none else "")

    def read(self, value: Any, name: str) -> Any:
        """The value as a plain number. Refuses what is none, or lies outside, naming the setting."""
        if (value is None and self.or_none) or (value == math.inf and self.or_infinite):
            return value
        plain = _plain(value, is_whole=self.is_whole)
        if plain is None or not self.low <= plain <= self.high or (self.is_open and plain == self.low):
            raise ValueError(f"`{name}` must be {self}, not {value!r}")
        return plain


def _plain(value: Any, *, is_whole: bool) -> int | float | None:
    """A Python number of anything that is one; 1e3 and numpy's are whole numbers too."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    plain = float(value)
    if not math.isfinite(plain) or (is_whole and not plain.is_integer()):
        return None
    return int(plain) if is_whole else plain


_COUNT = Range(0, is_whole=True)
_SOME = Range(0, is_whole=True, is_open=True)
_SOME_OR_NONE = Range(0, is_whole=True, is_open=True, or_none=True)
_NOT_NEGATIVE = Range(0)
_POSITIVE = Range(0, is_open=True)
_POSITIVE_OR_NONE = Range(0, is_open=True, or_none=True)
_SHARE = Range(0, 1)

_SETTINGS: dict[str, Range] = {
    "num_env_runners": _COUNT,
    "num_envs_per_env_runner": _SOME,
    "evaluation_num_env_runners": _COUNT,
    "num_learners": _COUNT,
    "num_cpus_per_env_runner": _NOT_NEGATIVE,
    "num_gpus_per_env_runner": _NOT_NEGATIVE,
    "num_cpus_for_main_process": _NOT_NEGATIVE,
    "num_gpus": _NOT_NEGATIVE,
    "metrics_num_episodes_for_smoothing": _SOME,
    "train_batch_size": _SOME,
    "train_batch_size_per_learner": _SOME_OR_NONE,
    "minibatch_size": _SOME_OR_NONE,
    "microbatch_size": _SOME_OR_NONE,
    "num_epochs": _SOME,
    "sample_timeout_s": Range(0, or_none=True),
    "evaluation_sample_timeout_s": Range(0, or_none=True),
    "min_time_s_per_iteration": Range(0, or_none=True),
    "min_sample_timesteps_per_iteration": _COUNT,
    "min_train_timesteps_per_iteration": _COUNT,
    "max_num_env_runner_restarts": _COUNT,
    "num_consecutive_env_runner_failures_tolerance": _COUNT,
    "horizon": _SOME_OR_NONE,
    "seed": Range(0, 2**63, is_whole=True, or_none=True),
    "gamma": _SHARE,
    "lambda_": _SHARE,
    "grad_clip": _POSITIVE_OR_NONE,
    "vf_clip_param": Range(0, is_open=True, or_none=True, or_infinite=True),
    "vf_loss_coeff": _NOT_NEGATIVE,
    "kl_coeff": _NOT_NEGATIVE,
    "kl_target": _POSITIVE,
    "adam_epsilon": _POSITIVE,
    "decay": _SHARE,
    "momentum": _SHARE,
    "vtrace_clip_rho_threshold": _POSITIVE,
    "vtrace_clip_pg_rho_threshold": _POSITIVE,
    "broadcast_interval": _COUNT,
    "tau": Range(0, 1, is_open=True),
    "target_network_update_freq": _COUNT,
    "num_steps_sampled_before_learning_starts": _COUNT,
    "training_intensity": _POSITIVE_OR_NONE,
    "initial_alpha": _POSITIVE,
    "actor_lr": _NOT_NEGATIVE,
    "critic_lr": _NOT_NEGATIVE,
    "alpha_lr": _NOT_NEGATIVE,
    "noise_stdev": _POSITIVE,
    "stepsize": _POSITIVE,
    "l2_coeff": _NOT_NEGATIVE,
    "episodes_per_batch": _SOME,
}

#: Numbers or schedules: what each of their values must be.
_SCHEDULED = {"lr": _NOT_NEGATIVE, "entropy_coeff": _NOT_NEGATIVE, "epsilon": _SHARE, "clip_param": _NOT_NEGATIVE}

_MODEL: dict[str, Range] = {"lstm_cell_size": _SOME, "max_seq_len": _SOME}
_LAYERS = ("fcnet_hiddens", "head_fcnet_hiddens", "post_fcnet_hiddens")

#: What RLlib's networks have and the built-in ones have not. Refused, so that nobody believes in it.
_ABSENT_IN_MODEL: dict[str, Any] = {
    "use_gsde": False,
    "use_attention": False,
    "lstm_use_prev_action": False,
    "lstm_use_prev_reward": False,
}

#: How actions are tried: by the distribution itself, or now and then at random.
_EXPLORATIONS = ("EpsilonGreedy", "StochasticSampling", None)

#: Of `replay_buffer_config`. RLlib's own buffers know some more, which change nothing about what is learned here.
_BUFFER_KEYS = {
    "type",
    "capacity",
    "alpha",
    "beta",
    "eps",
    "replay_sequence_length",
    "replay_batch_size",
    "replay_burn_in",
    "replay_zero_init_states",
    "prioritized_replay",
    "storage_unit",
    "underlying_buffer_config",
    "worker_side_prioritization",
    "learning_starts",
    "replay_mode",
    "batch_size_B",
    "batch_length_T",
    "metrics_num_episodes_for_smoothing",
    "no_local_replay_buffer",
    "num_shards",
    "replay_buffer_shards_colocated_with_driver",
}


@functools.cache
def _model_keys() -> frozenset[str]:
    """What networks may be told, by the names of both eras."""
    return frozenset({*MODEL_DEFAULTS, *(field.name for field in dataclasses.fields(DefaultModelConfig))})


def check(config: AlgorithmConfig) -> None:
    """Refuses values that no algorithm can work with. Numbers of other types become Python's."""
    for name, bounds in _SETTINGS.items():
        if name not in config:
            continue
        value = getattr(config, name)
        plain = bounds.read(value, name)
        if type(plain) is not type(value) and not config.is_frozen:
            setattr(config, name, plain)
    _check_schedules(config)
    check_model(config.model, "model")
    check_model(config.model_config or {}, "model_config")
    for name in ("policy_model_config", "q_model_config"):
        if name in config:
            check_model(getattr(config, name) or {}, name)
    explores = (config.exploration_config or {}).get("type")
    if explores not in _EXPLORATIONS:
        known = [name for name in _EXPLORATIONS if name]
        raise ValueError(f"`exploration_config['type']` must be one of {known}, not {explores!r}")
    if "replay_buffer_config" in config:
        _check_replay(config.replay_buffer_config)


def _check_schedules(config: AlgorithmConfig) -> None:
    for name, bounds in _SCHEDULED.items():
        if name not in config:
            continue
        value = getattr(config, name)
        # SAC has three rates of its own; only there nothing is said by `lr`.
        if value is None and ("actor_lr" in config or name != "lr"):
            continue
        for one in Schedule(value, name).values:
            bounds.read(one, name)


def check_model(model: dict[str, Any], where: str) -> None:
    """Refuses sizes and kinds of layers that cannot be built, and parts that there are not."""
    if not isinstance(model, dict):
        raise TypeError(f"`{where}` must be a dictionary, not {model!r}")
    _refuse_unknown(model, _model_keys(), where)
    for name in _LAYERS:
        sizes = model.get(name)
        if sizes is None:
            continue
        if not isinstance(sizes, list | tuple):
            raise ValueError(f"`{where}[{name!r}]` must be a list of sizes, as [64, 64], not {sizes!r}")
        for size in sizes:
            _SOME.read(size, f"{where}[{name!r}]")
    for name, bounds in _MODEL.items():
        if name in model:
            bounds.read(model[name], f"{where}[{name!r}]")
    for name, default in _ABSENT_IN_MODEL.items():
        if model.get(name, default) != default:
            raise ValueError(f"`{where}[{name!r}]` is not available here: leave it at {default!r}")
    filters = model.get("conv_filters")
    if filters is not None and not all(isinstance(one, list | tuple) and len(one) == 3 for one in filters):
        raise ValueError(f"`{where}['conv_filters']` must be lists of [channels, kernel, stride], not {filters!r}")


def _check_replay(buffer: dict[str, Any]) -> None:
    _refuse_unknown(buffer, _BUFFER_KEYS, "replay_buffer_config")
    _SOME.read(buffer.get("capacity"), "replay_buffer_config['capacity']")
    for name in ("alpha", "beta"):
        if name in buffer:
            _NOT_NEGATIVE.read(buffer[name], f"replay_buffer_config[{name!r}]")
    kind = buffer.get("type", "")
    if "Replay" not in str(kind):
        raise ValueError(
            f"`replay_buffer_config['type']` is {kind!r}, which is no replay: "
            "there are 'EpisodeReplayBuffer' and 'PrioritizedEpisodeReplayBuffer'"
        )


def _refuse_unknown(given: dict[str, Any], known: Iterable[str], where: str) -> None:
    for name in given:
        if name not in known and not str(name).startswith("_"):
            raise ValueError(f"unknown key {name!r} in `{where}`.{hint(str(name), known)}")
