"""Whole episodes, from which steps or sequences are drawn."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from eagleray.rllib.env.single_agent_episode import SingleAgentEpisode
from eagleray.rllib.env.utils.infinite_lookback_buffer import stack
from eagleray.rllib.utils.replay_buffers.base import ReplayBufferInterface


class EpisodeReplayBuffer(ReplayBufferInterface):
    """Keeps the newest episodes. A part of an episode that it has is added to it.

    Args:
        capacity: how many steps it keeps. The oldest episodes go; the last one stays, however long.
        batch_size_B: how many sequences a sample has by default.
        batch_length_T: how long they are.
        **kwargs: what other buffers take.
    """

    def __init__(
        self, capacity: int = 10_000, *, batch_size_B: int = 16, batch_length_T: int = 64, **kwargs: Any
    ) -> None:
        self.capacity = capacity
        self.batch_size_B, self.batch_length_T = batch_size_B, batch_length_T
        self._by_id: OrderedDict[str, SingleAgentEpisode] = OrderedDict()
        self._added = 0
        self._sampled = 0
        self.rng = np.random.default_rng()

    @property
    def episodes(self) -> list[SingleAgentEpisode]:
        """Its episodes, the oldest first."""
        return list(self._by_id.values())

    def __len__(self) -> int:
        return self.get_num_timesteps()

    def get_num_episodes(self) -> int:
        """How many episodes it has."""
        return len(self._by_id)

    def get_num_timesteps(self) -> int:
        """How many steps they have."""
        return sum(len(episode) for episode in self._by_id.values())

    def get_added_timesteps(self) -> int:
        """How many steps were ever added."""
        return self._added

    def get_sampled_timesteps(self) -> int:
        """How many steps were ever drawn."""
        return self._sampled

    def add(self, episodes: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Adds one episode or several."""
        for episode in [episodes] if isinstance(episodes, SingleAgentEpisode) else episodes:
            self._added += len(episode)
            known = self._by_id.get(episode.id_)
            if known is None:
                # Its own data, so that the program's episode may go on; and lists, so that parts can be added.
                self._by_id[episode.id_] = episode.slice(slice(0, len(episode)), len_lookback_buffer=0)
            else:
                if known.is_numpy and not episode.is_numpy:
                    episode = episode.slice(slice(0, len(episode)), len_lookback_buffer=0).to_numpy()
                known.concat_episode(episode)
        while len(self._by_id) > 1 and self.get_num_timesteps() > self.capacity:
            self._forget(self._by_id.popitem(last=False)[1])

    def _forget(self, episode: SingleAgentEpisode) -> None:
        """An episode goes."""

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        sample_episodes: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Sequences as columns, or single steps as episodes.

        Args:
            num_items: how many; another name of `batch_size_B`.
            batch_size_B: how many sequences or steps.
            batch_length_T: how long sequences are. One that reaches the end of an episode goes on with another.
            n_step: over how many steps a drawn step adds up rewards; of a pair, some number between.
            gamma: by which factor each later reward counts less.
            sample_episodes: whether single steps are drawn: episodes of one action, with their `n_step` and `weights`.
            **kwargs: what other buffers take.
        """
        if not self.get_num_timesteps():
            raise ValueError("Trying to sample from an empty buffer.")
        count = num_items or batch_size_B or self.batch_size_B
        if sample_episodes:
            found = [self._step(*self._draw(), n_step, gamma) for _ in range(count)]
            self._sampled += count
            return found
        length = batch_length_T or self.batch_length_T
        self._sampled += count * length
        return _columns([self._sequence(length) for _ in range(count)])

    def _draw(self) -> tuple[SingleAgentEpisode, int]:
        """An episode, the longer the likelier, and one of its steps."""
        episodes = [episode for episode in self._by_id.values() if len(episode)]
        place = int(self.rng.integers(sum(len(episode) for episode in episodes)))
        for episode in episodes:
            if place < len(episode):
                return episode, place
            place -= len(episode)
        raise AssertionError("unreachable")

    def _step(
        self, episode: SingleAgentEpisode, at: int, n_step: Any, gamma: float, weight: float = 1.0
    ) -> SingleAgentEpisode:
        steps = int(self.rng.integers(n_step[0], n_step[1] + 1)) if isinstance(n_step, tuple) else int(n_step)
        steps = min(steps, len(episode) - at)
        rewards = episode.get_rewards(slice(at, at + steps))
        ends = at + steps == len(episode)
        outputs = {key: [data.get(at)] for key, data in episode.extra_model_outputs.items()}
        return SingleAgentEpisode(
            episode.id_,
            observations=[episode.get_observations(at), episode.get_observations(at + steps)],
            observation_space=episode.observation_space,
            infos=[episode.get_infos(at), episode.get_infos(at + steps)],
            actions=[episode.get_actions(at)],
            action_space=episode.action_space,
            rewards=[float(sum(reward * gamma**number for number, reward in enumerate(rewards)))],
            terminated=episode.is_terminated and ends,
            truncated=episode.is_truncated and ends,
            extra_model_outputs={**outputs, "n_step": [steps], "weights": [weight]},
            t_started=episode.t_started + at,
            len_lookback_buffer=0,
            agent_id=episode.agent_id,
            module_id=episode.module_id,
        )

    def _sequence(self, length: int) -> list[dict[str, Any]]:
        """So many steps in a row; behind an episode's end comes another one's beginning."""
        rows: list[dict[str, Any]] = []
        while len(rows) < length:
            episode, start = self._draw()
            # Only the first of them may begin in the middle.
            start = start if not rows else 0
            stop = min(start + length - len(rows), len(episode))
            for at in range(start, stop):
                is_last = at == len(episode) - 1
                rows.append(
                    {
                        "obs": episode.get_observations(at),
                        "actions": episode.get_actions(at),
                        "rewards": episode.get_rewards(at),
                        "is_first": at == 0,
                        "is_last": is_last and episode.is_done,
                        "is_terminated": is_last and episode.is_terminated,
                        "is_truncated": is_last and episode.is_truncated,
                    }
                )
        return rows

    def get_state(self) -> dict[str, Any]:
        """All that it has."""
        states = [episode.get_state() for episode in self._by_id.values()]
        return {"episodes": states, "added": self._added, "sampled": self._sampled}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up what another one had."""
        found = [SingleAgentEpisode.from_state(one) for one in state["episodes"]]
        self._by_id = OrderedDict((episode.id_, episode) for episode in found)
        self._added, self._sampled = state["added"], state["sampled"]


def _columns(sequences: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Rows of rows as columns: sequence, then step."""
    names = sequences[0][0]
    return {name: stack([stack([row[name] for row in rows]) for rows in sequences]) for name in names}


__all__ = ["EpisodeReplayBuffer"]
