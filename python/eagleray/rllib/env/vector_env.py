"""Environments that step several copies of themselves at once."""

from __future__ import annotations

from typing import Any


class VectorEnv:
    """Subclass it: `vector_reset`, `reset_at`, `vector_step`."""

    def __init__(self, observation_space: Any, action_space: Any, num_envs: int) -> None:
        """Keep the spaces of one copy, and how many there are."""
        self.observation_space = observation_space
        self.action_space = action_space
        self.num_envs = num_envs

    def vector_reset(self, *, seeds: list[int] | None = None, options: Any = None) -> Any:
        """Begin all episodes; return a list of observations, or one of them and one of infos."""
        raise NotImplementedError

    def reset_at(self, index: int | None = None, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin one episode; return its observation, or that and its info."""
        raise NotImplementedError

    def vector_step(self, actions: list[Any]) -> Any:
        """Do one step in each; return lists of observations, rewards, ends (terminated and truncated), infos."""
        raise NotImplementedError

    def get_sub_environments(self) -> list[Any]:
        """The copies, where they are objects."""
        return []
