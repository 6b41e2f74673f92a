"""One result with the keys of both eras."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eagleray.rllib.utils.metrics._episodes import EpisodeStatistics

import contextlib

#: Our names of what a learner says -> what older and newer programs call them. What is not listed keeps its name in both.
_OLD_LEARNER = {
    "mean_kl_loss": "kl",
    "curr_kl_coeff": "cur_kl_coeff",
    "default_optimizer_learning_rate": "cur_lr",
    "curr_entropy_coeff": "entropy_coeff",
    "gradients_default_optimizer_global_norm": "grad_gnorm",
    "qf_mean": "mean_q",
}


class Counters:
    """Steps since the beginning, and since the last result."""

    NAMES = ("env_steps_sampled", "agent_steps_sampled", "env_steps_trained", "agent_steps_trained")

    def __init__(self) -> None:
        self.lifetime = dict.fromkeys(self.NAMES, 0)
        self.iteration = dict.fromkeys(self.NAMES, 0)

    def add(self, name: str, steps: int) -> None:
        """Counts steps."""
        self.lifetime[name] += steps
        self.iteration[name] += steps

    def next_iteration(self) -> None:
        """Counts what one iteration does from zero."""
        self.iteration = dict.fromkeys(self.NAMES, 0)


class Timers:
    """How long parts of an iteration took, as means over the last ones."""

    _SHARE = 0.05

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measures what stands in the `with`."""
        start = time.perf_counter()
        yield
        took = time.perf_counter() - start
        old = self.seconds.get(name)
        self.seconds[name] = took if old is None else old + self._SHARE * (took - old)


@dataclass
class Faults:
    """What became of the runners."""

    healthy: int = 0
    restarts: int = 0
    in_flight: int = 0
    sub_environments: int = 0


@dataclass
class Parts:
    """All that a result is made of."""

    episodes: EpisodeStatistics
    counters: Counters
    timers: Timers
    faults: Faults
    config: dict[str, Any]
    #: By policy.
    learners: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    evaluation: dict[str, Any] | None = None
    #: Logged by callbacks.
    logged: dict[str, Any] = field(default_factory=dict)
    keep_custom: bool = False
    #: How busy the machine is, in percent.
    load: dict[str, float] = field(default_factory=dict)
    #: Rounds of this iteration.
    rounds: int = 1


def result_of(parts: Parts) -> dict[str, Any]:
    """The whole of it. The trainable adds times, dates and the number of the iteration."""
    counters, timers = parts.counters, parts.timers
    now, life = counters.iteration, counters.lifetime
    old = parts.episodes.old_keys(keep_custom=parts.keep_custom)
    learners: dict[str, Any] = {name: dict(said) for name, said in parts.learners.items()}
    learners["__all_modules__"] = {
        "num_env_steps_trained": now["env_steps_trained"],
        "num_env_steps_trained_lifetime": life["env_steps_trained"],
        "num_module_steps_trained": now["agent_steps_trained"],
        "num_module_steps_trained_lifetime": life["agent_steps_trained"],
    }
    new = parts.episodes.new_keys() | {
        "num_env_steps_sampled": now["env_steps_sampled"],
        "num_env_steps_sampled_lifetime": life["env_steps_sampled"],
        "num_agent_steps_sampled": now["agent_steps_sampled"],
        "num_agent_steps_sampled_lifetime": life["agent_steps_sampled"],
    }
    steps = {f"num_{name}": value for name, value in life.items()}
    result: dict[str, Any] = {
        **old,
        "sampler_results": dict(old),
        "env_runners": {**old, **new, **parts.logged},
        "learners": learners,
        "info": {
            "learner": {name: _old_learner(said) for name, said in parts.learners.items()},
            **steps,
            "num_steps_sampled": life["env_steps_sampled"],
            "num_steps_trained": life["env_steps_trained"],
        },
        "timers": _timer_keys(timers),
        "sampler_perf": {},
        "perf": parts.load,
        "fault_tolerance": {
            "num_healthy_workers": parts.faults.healthy,
            "num_in_flight_async_sample_reqs": parts.faults.in_flight,
            "num_remote_worker_restarts": parts.faults.restarts,
            "num_env_restarts": parts.faults.sub_environments,
        },
        "num_healthy_workers": parts.faults.healthy,
        "num_remote_worker_restarts": parts.faults.restarts,
        "num_in_flight_async_reqs": parts.faults.in_flight,
        **steps,
        "num_env_steps_sampled_lifetime": life["env_steps_sampled"],
        "num_agent_steps_sampled_lifetime": life["agent_steps_sampled"],
        "num_env_steps_trained_lifetime": life["env_steps_trained"],
        "num_env_steps_sampled_this_iter": now["env_steps_sampled"],
        "num_env_steps_trained_this_iter": now["env_steps_trained"],
        "num_steps_trained_this_iter": now["env_steps_trained"],
        "num_training_step_calls_per_iteration": parts.rounds,
        "timesteps_this_iter": now["env_steps_sampled"],
        "timesteps_total": life["env_steps_sampled"],
        "agent_timesteps_total": life["agent_steps_sampled"],
        "episodes_total": parts.episodes.lifetime,
        "counters": steps,
        "config": parts.config,
    }
    if parts.evaluation is not None:
        result["evaluation"] = parts.evaluation
    return result


def evaluation_of(episodes: EpisodeStatistics, steps: int, lifetime: int, logged: dict[str, Any]) -> dict[str, Any]:
    """What an evaluation came to."""
    old = episodes.old_keys()
    counts = {"num_env_steps_sampled": steps, "num_env_steps_sampled_lifetime": lifetime}
    return {
        **old,
        "env_runners": {**old, **episodes.new_keys(), **counts, **logged},
        "timesteps_this_iter": steps,
        "num_env_steps_sampled_lifetime": lifetime,
    }


def evaluation_of_both_eras(found: dict[str, Any]) -> dict[str, Any]:
    """What `evaluate()` returns. Older programs look below "evaluation", newer ones at the top."""
    return {**found, "evaluation": found}


def evaluation_in_result(said: dict[str, Any]) -> dict[str, Any]:
    """What a training result holds of it, of either form: an algorithm of the program's own may return its own, and callbacks write into it."""
    return {**said.get("evaluation", {}), **{name: value for name, value in said.items() if name != "evaluation"}}


def _timer_keys(timers: Timers) -> dict[str, float]:
    found = dict(timers.seconds)
    for new, old in (
        ("env_runner_sampling_timer", "sample_time_ms"),
        ("learner_update_timer", "learn_time_ms"),
        ("synch_weights", "synch_weights_time_ms"),
        ("training_iteration", "training_iteration_time_ms"),
    ):
        if new in timers.seconds:
            found[old] = timers.seconds[new] * 1000.0
    return found


def _old_learner(said: Mapping[str, float]) -> dict[str, Any]:
    flat = {_OLD_LEARNER.get(name, name): value for name, value in said.items()}
    # Between the two eras the numbers stood one level lower.
    return {**flat, "learner_stats": dict(flat)}
