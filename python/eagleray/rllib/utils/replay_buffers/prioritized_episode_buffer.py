"""Whole episodes, whose steps are drawn the more often the more there was to learn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eagleray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagleray.rllib.env.single_agent_episode import SingleAgentEpisode


class PrioritizedEpisodeReplayBuffer(EpisodeReplayBuffer):
    """Draws single steps by priorities.

    Args:
        capacity: how many steps it keeps.
        alpha: 0 for all alike, 1 for chances as priorities.
        **kwargs: what `EpisodeReplayBuffer` takes.
    """

    def __init__(self, capacity: int = 10_000, *, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(capacity, **kwargs)
        self._alpha = alpha
        self._max_priority = 1.0
        #: Of each episode, one for each of its steps.
        self._weights: dict[str, list[float]] = {}
        #: What was drawn last.
        self._drawn: list[tuple[str, int]] = []

    def add(self, episodes: Any, weight: float | None = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Adds episodes, whose steps are as likely as the likeliest, or of a given priority."""
        super().add(episodes, **kwargs)
        value = (self._max_priority if weight is None else weight) ** self._alpha
        for episode in self.episodes:
            own = self._weights.setdefault(episode.id_, [])
            own.extend([value] * (len(episode) - len(own)))

    def _forget(self, episode: SingleAgentEpisode) -> None:
        self._weights.pop(episode.id_, None)

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        n_step: int | tuple[int, int] = 1,
        beta: float = 0.0,
        gamma: float = 0.99,
        **kwargs: Any,
    ) -> list[SingleAgentEpisode]:
        """Single steps as episodes of one action, with `weights` that make up for their chances, to the power of beta."""
        count = num_items or batch_size_B or self.batch_size_B
        if not self.get_num_timesteps():
            raise ValueError("Trying to sample from an empty buffer.")
        places = [(episode.id_, at) for episode in self.episodes for at in range(len(episode))]
        chances = np.array([weight for episode in self.episodes for weight in self._weights[episode.id_]])
        chances /= chances.sum()
        drawn = self.rng.choice(len(places), count, p=chances)
        self._drawn = [places[index] for index in drawn]
        weights = (len(places) * chances[drawn]) ** -beta / (len(places) * chances.min()) ** -beta
        self._sampled += count
        return [
            self._step(self._by_id[name], at, n_step, gamma, float(weight))
            for (name, at), weight in zip(self._drawn, weights, strict=True)
        ]

    def update_priorities(self, priorities: Sequence[float], module_id: Any = None) -> None:
        """Sets the priorities of the steps that were drawn last."""
        if len(priorities) != len(self._drawn):
            raise ValueError(f"{len(self._drawn)} steps were drawn, and {len(priorities)} priorities are given")
        for (name, at), priority in zip(self._drawn, priorities, strict=True):
            if not priority > 0:
                raise ValueError(f"a priority is greater than 0: {priority!r}")
            if name in self._weights:
                self._weights[name][at] = float(priority) ** self._alpha
            self._max_priority = max(self._max_priority, float(priority))

    def get_state(self) -> dict[str, Any]:
        """All that it has."""
        own = {name: list(weights) for name, weights in self._weights.items()}
        return super().get_state() | {"weights": own, "max_priority": self._max_priority}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up what another one had."""
        super().set_state(state)
        self._weights = {name: list(weights) for name, weights in state["weights"].items()}
        self._max_priority = state["max_priority"]


__all__ = ["PrioritizedEpisodeReplayBuffer"]
