"""An episode as callbacks see it, with the names of both eras."""

from __future__ import annotations

import time
import uuid
from typing import Any

from eagleray.rllib.utils.metrics._episodes import EpisodeRecord

AGENT = "default_agent"
POLICY = "default_policy"


class Episode:
    """What has happened in an episode so far. It is kept only where a callback looks at it."""

    def __init__(self, env_index: int = 0) -> None:
        self.id_ = self.episode_id = uuid.uuid4().hex
        self.env_id = env_index
        self.length = 0
        self.total_reward = 0.0
        #: For the callbacks to write into.
        self.user_data: dict[str, Any] = {}
        self.custom_data: dict[str, Any] = self.user_data
        self.custom_metrics: dict[str, Any] = {}
        self.hist_data: dict[str, list[Any]] = {}
        self.media: dict[str, Any] = {}
        #: By agent and policy.
        self.agent_rewards: dict[tuple[Any, str], float] = {}
        self.is_done = self.is_terminated = self.is_truncated = False
        self._began = time.perf_counter()
        self._seen: dict[Any, list[Any]] = {}
        self._done: dict[Any, list[Any]] = {}
        self._rewards: dict[Any, list[float]] = {}
        self._infos: dict[Any, list[Any]] = {}

    def saw(self, observation: Any, info: Any = None, agent: Any = AGENT) -> None:
        """Notes an observation."""
        self._seen.setdefault(agent, []).append(observation)
        self._infos.setdefault(agent, []).append(info)

    def did(self, action: Any, reward: float, agent: Any = AGENT, policy: str = POLICY) -> None:
        """Notes an action and what it brought."""
        self._done.setdefault(agent, []).append(action)
        self.earned(reward, agent, policy)

    def earned(self, reward: float, agent: Any = AGENT, policy: str = POLICY) -> None:
        """Notes a reward."""
        self._rewards.setdefault(agent, []).append(reward)
        self.total_reward += reward
        key = (agent, policy)
        self.agent_rewards[key] = self.agent_rewards.get(key, 0.0) + reward

    def __len__(self) -> int:
        return self.length

    def get_return(self) -> float:
        """The sum of its rewards."""
        return self.total_reward

    def env_steps(self) -> int:
        """Its steps so far."""
        return self.length

    def get_duration_s(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._began

    def get_agents(self) -> list[Any]:
        """Those that took part."""
        return list(self._seen)

    def policy_for(self, agent_id: Any = AGENT) -> str | None:
        """Which policy an agent acts by."""
        return next((policy for agent, policy in self.agent_rewards if agent == agent_id), None)

    def get_observations(self, indices: Any = None, agent_id: Any = AGENT) -> Any:
        """Observations: all, one by its place, or several."""
        return _at(self._seen.get(agent_id, []), indices)

    def get_infos(self, indices: Any = None, agent_id: Any = AGENT) -> Any:
        """What the environment said beside the observations."""
        return _at(self._infos.get(agent_id, []), indices)

    def get_actions(self, indices: Any = None, agent_id: Any = AGENT) -> Any:
        """Actions."""
        return _at(self._done.get(agent_id, []), indices)

    def get_rewards(self, indices: Any = None, agent_id: Any = AGENT) -> Any:
        """Rewards."""
        return _at(self._rewards.get(agent_id, []), indices)

    def last_observation_for(self, agent_id: Any = AGENT) -> Any:
        """The newest observation."""
        return _last(self._seen.get(agent_id))

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: Any = AGENT) -> Any:
        """What the environment said last."""
        return _last(self._infos.get(agent_id))

    def last_action_for(self, agent_id: Any = AGENT) -> Any:
        """The newest action."""
        return _last(self._done.get(agent_id))

    def last_reward_for(self, agent_id: Any = AGENT) -> Any:
        """The newest reward."""
        return _last(self._rewards.get(agent_id))

    def record(self) -> EpisodeRecord:
        """What is kept of it."""
        policies: dict[str, list[float]] = {}
        agents: dict[Any, float] = {}
        for (agent, policy), total in self.agent_rewards.items():
            policies.setdefault(policy, []).append(total)
            agents[agent] = agents.get(agent, 0.0) + total
        custom, hist = dict(self.custom_metrics), dict(self.hist_data)
        return EpisodeRecord(self.total_reward, self.length, self.get_duration_s(), agents, policies, custom, hist)


class AlsoSeen(type):
    """Of a kind of episode that programs make: what callbacks are given counts as one too, although it keeps less."""

    def __instancecheck__(cls, instance: object) -> bool:
        """Tell whether it is one."""
        return super().__instancecheck__(instance) or isinstance(instance, Episode)


def _at(values: list[Any], indices: Any) -> Any:
    if indices is None:
        return list(values)
    return values[indices] if isinstance(indices, int | slice) else [values[index] for index in indices]


def _last(values: list[Any] | None) -> Any:
    return values[-1] if values else None
