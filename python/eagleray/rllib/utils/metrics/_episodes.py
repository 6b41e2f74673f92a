"""Statistics of episodes over a sliding window."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass
class EpisodeRecord:
    """What is kept of an episode that ended."""

    total: float
    length: int
    seconds: float = 0.0
    #: By agent.
    agents: dict[Any, float] = field(default_factory=dict)
    #: By policy, one for each of its agents.
    policies: dict[str, list[float]] = field(default_factory=dict)
    #: What callbacks wrote into the episode.
    custom: dict[str, Any] = field(default_factory=dict)
    hist: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it is of one agent and one policy, by their usual names, and nobody wrote anything into it."""
        one = self.agents.get("default_agent") == self.total and self.policies.get("default_policy") == [self.total]
        return one and len(self.agents) == len(self.policies) == 1 and not self.custom and not self.hist


class EpisodeStatistics:
    """The last episodes, and how many there have been."""

    def __init__(self, window: int) -> None:
        self._last: deque[EpisodeRecord] = deque(maxlen=window)
        #: Of each of those: whether it is plain. Where all are, nothing has to be gathered by agent or policy.
        self._plain: deque[bool] = deque(maxlen=window)
        self.lifetime = 0
        self.this_iteration = 0

    def add(self, records: Iterable[EpisodeRecord]) -> None:
        """Takes up episodes that ended."""
        for record in records:
            self._keep(record)
            self.this_iteration += 1
            self.lifetime += 1

    def _keep(self, record: EpisodeRecord) -> None:
        self._last.append(record)
        self._plain.append(record.is_plain)

    def next_iteration(self) -> None:
        """Counts the episodes of an iteration from zero."""
        self.this_iteration = 0

    @property
    def records(self) -> list[EpisodeRecord]:
        """Those in the window."""
        return list(self._last)

    def old_keys(self, *, keep_custom: bool = False) -> dict[str, Any]:
        """The flat names."""
        totals = [record.total for record in self._last]
        lengths = [record.length for record in self._last]
        by_policy: dict[str, list[float]] = {}
        custom: dict[str, list[Any]] = {}
        hist: dict[str, list[Any]] = {"episode_reward": totals, "episode_lengths": lengths}
        for record in () if all(self._plain) else self._last:
            for policy, values in record.policies.items():
                by_policy.setdefault(policy, []).extend(values)
            for name, value in record.custom.items():
                custom.setdefault(name, []).append(value)
            for name, values in record.hist.items():
                hist.setdefault(name, []).extend(values)
        several = {name: values for name, values in by_policy.items() if set(by_policy) != {"default_policy"}}
        hist |= {f"policy_{name}_reward": values for name, values in several.items()}
        return {
            "episode_reward_mean": _mean(totals),
            "episode_reward_min": min(totals, default=math.nan),
            "episode_reward_max": max(totals, default=math.nan),
            "episode_len_mean": _mean(lengths),
            "episode_media": {},
            "episodes_this_iter": self.this_iteration,
            "policy_reward_mean": {name: _mean(values) for name, values in several.items()},
            "policy_reward_min": {name: min(values) for name, values in several.items()},
            "policy_reward_max": {name: max(values) for name, values in several.items()},
            "custom_metrics": custom if keep_custom else _spread(custom),
            "hist_stats": hist,
            "num_faulty_episodes": 0,
        }

    def new_keys(self) -> dict[str, Any]:
        """The names below `env_runners`. Means are left out as long as no episode has ended."""
        totals = [record.total for record in self._last]
        lengths = [record.length for record in self._last]
        found: dict[str, Any] = {
            "num_episodes": self.this_iteration,
            "num_episodes_lifetime": self.lifetime,
        }
        if not totals:
            return found
        agents: dict[str, list[float]] = {}
        modules: dict[str, list[float]] = {}
        if all(self._plain):
            agents["default_agent"] = modules["default_policy"] = totals
        for record in () if agents else self._last:
            for agent, total in record.agents.items():
                agents.setdefault(str(agent), []).append(total)
            for policy, values in record.policies.items():
                modules.setdefault(policy, []).extend(values)
        return found | {
            "episode_return_mean": _mean(totals),
            "episode_return_min": min(totals),
            "episode_return_max": max(totals),
            "episode_len_mean": _mean(lengths),
            "episode_len_min": min(lengths),
            "episode_len_max": max(lengths),
            "episode_duration_sec_mean": _mean([record.seconds for record in self._last]),
            "agent_episode_returns_mean": {name: _mean(values) for name, values in agents.items()},
            "module_episode_returns_mean": {name: _mean(values) for name, values in modules.items()},
        }

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: numbers only."""
        kept = [[record.total, record.length] for record in self._last]
        return {"lifetime": self.lifetime, "last": kept}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from it."""
        self.lifetime = int(state["lifetime"])
        self._last.clear()
        self._plain.clear()
        for total, length in state["last"]:
            one = {"default_agent": total}
            self._keep(EpisodeRecord(total, length, agents=one, policies={"default_policy": [total]}))


def _mean(values: list[Any]) -> float:
    return sum(values) / len(values) if values else math.nan


def _spread(custom: dict[str, list[Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, values in custom.items():
        numbers = [float(value) for value in values]
        found |= {f"{name}_mean": _mean(numbers), f"{name}_min": min(numbers), f"{name}_max": max(numbers)}
    return found
