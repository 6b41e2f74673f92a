"""Environments with several agents: dictionaries by agent in and out."""

from __future__ import annotations

from typing import Any

from eagleray.rllib.env import _single
from eagleray.rllib.env.env_context import EnvContext
from eagleray.rllib.utils.error import EnvError

#: The key beside the agents' that says that the episode is over for all.
ALL = "__all__"


class MultiAgentEnv:
    """Subclass it: `reset` and `step` take and give dictionaries; only agents with an observation act next."""

    observation_space: Any = None
    action_space: Any = None
    observation_spaces: dict[Any, Any] | None = None
    action_spaces: dict[Any, Any] | None = None
    agents: list[Any]
    possible_agents: list[Any]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode; return observations, or observations and infos."""
        raise NotImplementedError

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Do one step; return observations, rewards, terminated, truncated and infos. `"__all__"` ends the episode."""
        raise NotImplementedError

    def get_observation_space(self, agent_id: Any) -> Any:
        """What this agent sees."""
        return _space(self, agent_id, "observation_space")

    def get_action_space(self, agent_id: Any) -> Any:
        """What this agent does."""
        return _space(self, agent_id, "action_space")

    def get_agent_ids(self) -> set[Any]:
        """All agents that are known before the first step."""
        return set(getattr(self, "possible_agents", None) or getattr(self, "agents", None) or ())

    def render(self) -> Any:
        """Show it, if it can."""
        return None

    def close(self) -> None:
        """Let go of what it holds."""


def _space(env: Any, agent_id: Any, name: str) -> Any:
    several = getattr(env, f"{name}s", None)
    if isinstance(several, dict) and agent_id in several:
        return several[agent_id]
    one = getattr(env, name, None)
    inner = getattr(one, "spaces", None)
    if isinstance(inner, dict) and agent_id in inner:
        return inner[agent_id]
    if isinstance(one, dict):
        return one.get(agent_id)
    return one


def reset(env: Any, seed: int | None) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The first observations and infos, of either era."""
    observations, infos = _single.reset(env, seed)
    if not isinstance(observations, dict):
        raise EnvError(f"reset() of a MultiAgentEnv must return a dictionary by agent, not {observations!r}")
    return observations, infos


def parts(said: Any) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
    """What a step returned, in five parts."""
    count = len(said) if isinstance(said, tuple | list) else 0
    if count == 5:
        observations, rewards, terminated, truncated, infos = said
    elif count == 4:
        observations, rewards, terminated, infos = said
        truncated = {}
    else:
        raise EnvError(f"step() of a MultiAgentEnv must return four or five dictionaries, not {said!r}")
    for part in (observations, rewards, terminated, truncated):
        if not isinstance(part, dict):
            raise EnvError(f"step() of a MultiAgentEnv must return dictionaries by agent, not {part!r}")
    if ALL not in terminated:
        raise EnvError(
            f"step() of a MultiAgentEnv must say whether the episode is over for all: add {ALL!r}: True or False to {terminated!r}, "
            f"the {'terminateds' if count == 5 else 'dones'} that it returned"
        )
    return observations, rewards, terminated, truncated, infos or {}


def make_multi_agent(env_name_or_creator: Any) -> type[MultiAgentEnv]:
    """A class with `num_agents` (in its configuration) copies of an environment for one agent, side by side."""
    from eagleray.rllib.env import _make

    class Several(MultiAgentEnv):
        def __init__(self, config: Any = None) -> None:
            config = dict(config or {})
            count = int(config.pop("num_agents", 1))
            context = config if isinstance(config, EnvContext) else EnvContext(config)
            made = (_single.peeled(_make.make(env_name_or_creator, context)) for _ in range(count))
            self._envs, self._limits = zip(*made, strict=True)
            self.agents = self.possible_agents = list(range(count))
            self.observation_spaces = {agent: self._envs[agent].observation_space for agent in self.agents}
            self.action_spaces = {agent: self._envs[agent].action_space for agent in self.agents}
            self._over: set[int] = set()
            self._lengths = [0] * count

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self._over = set()
            self._lengths = [0] * len(self.agents)
            found = [_single.reset(env, None if seed is None else seed + i) for i, env in enumerate(self._envs)]
            return {i: one[0] for i, one in enumerate(found)}, {i: one[1] for i, one in enumerate(found)}

        def step(self, action_dict: dict[Any, Any]) -> Any:
            columns: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
            for agent, action in action_dict.items():
                said = list(_single.parts(self._envs[agent].step(action)))
                self._lengths[agent] += 1
                if self._limits[agent] is not None and self._lengths[agent] >= self._limits[agent]:
                    said[3] = said[3] or not said[2]
                for column, part in zip(columns, said, strict=True):
                    column[agent] = part
                if said[2] or said[3]:
                    self._over.add(agent)
            is_over = len(self._over) == len(self.agents)
            columns[2][ALL], columns[3][ALL] = is_over, False
            return columns

    return Several
