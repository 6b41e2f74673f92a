"""Episodes of several agents, as programs make and fill them themselves."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagleray.rllib.env._episode import AlsoSeen
from eagleray.rllib.env.single_agent_episode import SingleAgentEpisode
from eagleray.rllib.env.utils.infinite_lookback_buffer import stack
from eagleray.rllib.policy.sample_batch import MultiAgentBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ALL = "__all__"
_ABSENT: Any = object()


@dataclass
class _Deed:
    """An action that no observation has followed yet."""

    step: int
    action: Any
    outputs: dict[str, Any]


@dataclass
class _Track:
    """When an agent saw and did what, in steps of the environment; what it may look back at is among it."""

    #: For each observation of its episode.
    seen: list[int] = field(default_factory=list)
    #: For each action of it: one less.
    acted: list[int] = field(default_factory=list)
    deed: _Deed | None = None
    #: What it earned since its latest observation.
    earned: float | None = None

    def behind(self, number: int) -> _Track:
        """The same from this observation on."""
        return _Track(self.seen[number:], self.acted[number:], self.deed, self.earned)


class MultiAgentEpisode(metaclass=AlsoSeen):
    """An episode of several agents, or a part of one: a `SingleAgentEpisode` for each agent, and which step of the environment is which of its own.

    Not every agent need see or do something in every step. An action waits for the agent's next observation, and rewards that come meanwhile are
    added up: together they are one step of the agent. An observation that the agent has not acted upon gives way to a newer one.

    Args:
        id_: its name; parts of one episode share it.
        agent_ids: those who take part, as far as they are known.
        observations: so far: a dictionary by agent for each step of the environment, and one more than there are steps.
        observation_space: of each agent.
        infos: one dictionary for each of those.
        actions: so far, a dictionary by agent for each step.
        action_space: of each agent.
        rewards: one dictionary for each of those.
        terminateds: whether all, or by agent whether it, has come to the end behind the last step given; "__all__" is the episode.
        truncateds: the same for what was cut off.
        extra_model_outputs: for each step and agent a dictionary of what the model gave beside its action.
        env_t_started: at which step of the episode this part begins.
        agent_t_started: at which step of its own each agent begins.
        len_lookback_buffer: how many of the steps given are of before; "auto" for all.
        agent_episode_ids: the names of the agents' own episodes.
        agent_module_ids: by which module each agent acts.
        agent_to_module_mapping_fn: says so for others: called with an agent and this episode.
    """

    def __init__(
        self,
        id_: str | None = None,
        agent_ids: Iterable[Any] | None = None,
        *,
        observations: list[dict[Any, Any]] | None = None,
        observation_space: dict[Any, Any] | None = None,
        infos: list[dict[Any, Any]] | None = None,
        actions: list[dict[Any, Any]] | None = None,
        action_space: dict[Any, Any] | None = None,
        rewards: list[dict[Any, Any]] | None = None,
        terminateds: dict[Any, bool] | bool = False,
        truncateds: dict[Any, bool] | bool = False,
        extra_model_outputs: list[dict[Any, Any]] | None = None,
        env_t_started: int | None = None,
        agent_t_started: dict[Any, int] | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_episode_ids: dict[Any, str] | None = None,
        agent_module_ids: dict[Any, str] | None = None,
        agent_to_module_mapping_fn: Callable[..., str] | None = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_ids: set[Any] = set(agent_ids or ())
        self.observation_space, self.action_space = observation_space or {}, action_space or {}
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn
        self.agent_episodes: dict[Any, SingleAgentEpisode] = {}
        self.is_terminated = self.is_truncated = False
        #: Whether it has begun.
        self.is_reset = False
        self.env_t_started = self.env_t = env_t_started or 0
        #: For callbacks to write into.
        self.custom_data: dict[str, Any] = {}
        self._tracks: dict[Any, _Track] = {}
        self._over: set[Any] = set()
        #: The first step that may be looked back at.
        self._first = self.env_t
        self._agent_starts = dict(agent_t_started or {})
        self._episode_ids = dict(agent_episode_ids or {})
        self._module_ids = dict(agent_module_ids or {})
        self._began = self._last_step = time.perf_counter()
        if observations:
            steps = len(observations) - 1
            before = steps if len_lookback_buffer == "auto" else min(int(len_lookback_buffer), steps)
            columns = (actions or [], rewards or [], infos or [{}] * (steps + 1), extra_model_outputs or [{}] * steps)
            self._retell(observations, *columns, terminateds=_by_agent(terminateds), truncateds=_by_agent(truncateds))
            self._look_back(before)

    def _retell(
        self,
        observations: list[Any],
        actions: list[Any],
        rewards: list[Any],
        infos: list[Any],
        outputs: list[Any],
        **ends: dict[Any, bool],
    ) -> None:
        """Adds what happened before, step by step."""
        steps = len(observations) - 1
        lengths = {
            "actions": len(actions),
            "rewards": len(rewards),
            "infos - 1": len(infos) - 1,
            "extras": len(outputs),
        }
        for what, length in lengths.items():
            if length != steps:
                raise AssertionError(f"there are {steps} steps with observations behind them, and {length} {what}")
        self.add_env_reset(observations=observations[0], infos=infos[0])
        for at in range(steps):
            is_last = at == steps - 1
            self.add_env_step(
                observations[at + 1],
                actions[at],
                rewards[at],
                infos[at + 1],
                extra_model_outputs=outputs[at],
                **(ends if is_last else {}),
            )

    def _look_back(self, before: int) -> None:
        """Makes the first so many of the steps ones to look back at."""
        self.env_t_started += before
        self._shift(-before)
        for agent, episode in self.agent_episodes.items():
            seen = self._tracks[agent].seen
            steps = max(bisect_left(seen, self.env_t_started + 1) - 1, 0)
            for data in _columns(episode):
                data.lookback = steps
            episode.t = episode.t_started + len(episode.rewards)

    def _shift(self, steps: int) -> None:
        self._first += steps
        self.env_t += steps
        self.env_t_started += steps
        for track in self._tracks.values():
            track.seen = [step + steps for step in track.seen]
            track.acted = [step + steps for step in track.acted]
            if track.deed is not None:
                track.deed.step += steps

    # What comes in.

    def add_env_reset(self, *, observations: dict[Any, Any], infos: dict[Any, Any] | None = None) -> None:
        """What `env.reset()` gave."""
        if self.is_reset:
            raise AssertionError("this episode has been reset: it has an observation")
        if self.is_done:
            raise AssertionError("this episode is over")
        for agent, observation in observations.items():
            self._see(agent, observation, (infos or {}).get(agent), {})
        self.is_reset = True
        self._began = self._last_step = time.perf_counter()

    def add_env_step(
        self,
        observations: dict[Any, Any],
        actions: dict[Any, Any],
        rewards: dict[Any, Any],
        infos: dict[Any, Any] | None = None,
        *,
        terminateds: dict[Any, bool] | None = None,
        truncateds: dict[Any, bool] | None = None,
        extra_model_outputs: dict[Any, dict[str, Any]] | None = None,
    ) -> None:
        """What `env.step(actions)` gave, with the actions."""
        if self.is_done:
            raise AssertionError("this episode is over: no step can be added to it")
        if not self.is_reset:
            raise AssertionError("an episode begins with `add_env_reset`")
        infos, outputs = infos or {}, extra_model_outputs or {}
        terminateds, truncateds = terminateds or {}, truncateds or {}
        self._check(observations, actions, rewards)
        for agent, action in actions.items():
            self._tracks[agent].deed = _Deed(self.env_t, action, outputs.get(agent) or {})
        self.env_t += 1
        for agent, reward in rewards.items():
            track = self._track(agent)
            track.earned = reward if track.earned is None else track.earned + reward
        self.is_terminated, self.is_truncated = bool(terminateds.get(_ALL)), bool(truncateds.get(_ALL))
        for agent in [*observations, *(agent for agent in list(self.agent_episodes) if agent not in observations)]:
            ends = {
                "terminated": self.is_terminated or bool(terminateds.get(agent)),
                "truncated": self.is_truncated or bool(truncateds.get(agent)),
            }
            if agent in observations:
                self._see(agent, observations[agent], infos.get(agent), ends)
            elif any(ends.values()) and not self.agent_episodes[agent].is_done:
                self._end(agent, infos.get(agent), ends)
            if any(ends.values()):
                self._over.add(agent)
        self._last_step = time.perf_counter()

    def _check(self, observations: dict[Any, Any], actions: dict[Any, Any], rewards: dict[Any, Any]) -> None:
        """Raises what cannot be, before anything is changed."""
        for what, given in (("an observation", observations), ("an action", actions), ("a reward", rewards)):
            for agent in given:
                if agent in self._over:
                    raise AssertionError(f"agent {agent!r} is done, and {what} came for it")
        for agent in actions:
            if agent not in self.agent_episodes:
                raise AssertionError(f"agent {agent!r} acted before it saw anything")
            if self._tracks[agent].deed is not None:
                raise AssertionError(f"agent {agent!r} acted again before it saw what came of its action")

    def _track(self, agent: Any) -> _Track:
        self.agent_ids.add(agent)
        return self._tracks.setdefault(agent, _Track())

    def _see(self, agent: Any, observation: Any, info: Any, ends: dict[str, bool]) -> None:
        """An agent has seen something: for the first time, behind an action, or instead of what it has not acted upon."""
        track = self._track(agent)
        episode = self.agent_episodes.get(agent)
        if episode is None:
            episode = self.agent_episodes[agent] = self._made(agent)
            episode.add_env_reset(observation, info)
            track.seen.append(self.env_t)
        elif track.deed is not None:
            deed, reward = track.deed, 0.0 if track.earned is None else track.earned
            track.deed = track.earned = None
            episode.add_env_step(observation, deed.action, reward, info, extra_model_outputs=deed.outputs, **ends)
            track.acted.append(deed.step)
            track.seen.append(self.env_t)
            return
        else:
            episode.observations.set(observation, -1)
            episode.infos.set(info or {}, -1)
            track.seen[-1] = self.env_t
        if any(ends.values()):
            self._end(agent, info, ends)

    def _end(self, agent: Any, info: Any, ends: dict[str, bool]) -> None:
        """An agent is done, and has seen nothing new. What it saw last stands for what it would see."""
        track, episode = self._tracks[agent], self.agent_episodes[agent]
        if track.deed is not None:
            self._see(agent, episode.get_observations(-1), info, ends)
            return
        episode.is_terminated, episode.is_truncated = ends["terminated"], ends["truncated"]
        if track.earned is not None and len(episode):
            episode.rewards.set(episode.rewards.get(-1) + track.earned, -1)
            track.earned = None

    def _made(self, agent: Any) -> SingleAgentEpisode:
        return SingleAgentEpisode(
            self._episode_ids.get(agent),
            observation_space=_of(self.observation_space, agent),
            action_space=_of(self.action_space, agent),
            t_started=self._agent_starts.get(agent),
            agent_id=agent,
            module_id=self.module_for(agent),
            multi_agent_episode_id=self.id_,
        )

    def validate(self) -> None:
        """Raises what does not fit together in an agent's episode."""
        for episode in self.agent_episodes.values():
            episode.validate()

    # What is known.

    @property
    def is_done(self) -> bool:
        """Whether it is over."""
        return self.is_terminated or self.is_truncated

    @property
    def is_numpy(self) -> bool:
        """Whether its data are arrays."""
        return bool(self.agent_episodes) and all(episode.is_numpy for episode in self.agent_episodes.values())

    is_finalized = is_numpy

    def __len__(self) -> int:
        return self.env_t - self.env_t_started

    def env_steps(self) -> int:
        """Its steps."""
        return len(self)

    def agent_steps(self) -> int:
        """The steps of all its agents together."""
        return sum(map(len, self.agent_episodes.values()))

    def get_return(self, *, consider_hanging_rewards: bool = False) -> float:
        """The sum of all rewards; if asked for, with those that belong to no step of an agent yet."""
        total = sum(episode.get_return() for episode in self.agent_episodes.values())
        if consider_hanging_rewards:
            total += sum(float(track.earned or 0.0) for track in self._tracks.values())
        return float(total)

    def get_duration_s(self) -> float:
        """Seconds from its first observation to its last."""
        return self._last_step - self._began

    def get_agents(self) -> list[Any]:
        """Those that took part."""
        return list(self.agent_episodes)

    def get_agents_to_act(self) -> set[Any]:
        """Those that have just seen something, and are not done."""
        return {agent for agent in self._now_seen() if not self.agent_episodes[agent].is_done}

    def get_agents_that_stepped(self) -> set[Any]:
        """Those that have just seen something."""
        return set(self._now_seen())

    def _now_seen(self) -> list[Any]:
        return [agent for agent in self.agent_episodes if self._tracks[agent].seen[-1] == self.env_t]

    def get_terminateds(self) -> dict[Any, bool]:
        """Who has come to an end; "__all__" is the episode."""
        ended = {agent: episode.is_terminated for agent, episode in self.agent_episodes.items()}
        return {**ended, _ALL: self.is_terminated}

    def get_truncateds(self) -> dict[Any, bool]:
        """Who was cut off; "__all__" is the episode."""
        ended = {agent: episode.is_truncated for agent, episode in self.agent_episodes.items()}
        return {**ended, _ALL: self.is_truncated}

    def module_for(self, agent_id: Any) -> str | None:
        """By which module an agent acts."""
        if agent_id not in self._module_ids and self.agent_to_module_mapping_fn is not None:
            self._module_ids[agent_id] = self.agent_to_module_mapping_fn(agent_id, self)
        return self._module_ids.get(agent_id)

    policy_for = module_for

    def get_observations(self, indices: Any = None, agent_ids: Any = None, **how: Any) -> Any:
        """Observations by agent: of all steps, of one, or of several; of those agents that saw something then.

        Args:
            indices: a step, a list of steps, or a slice; negative ones count from the end.
            agent_ids: of whom; all by default.
            how: `env_steps=False` counts each agent's own steps. `return_list=True` gives a dictionary for each step, and not a list for each agent.
                `neg_index_as_lookback`, `fill` and `one_hot_discrete` are as in `SingleAgentEpisode.get_observations`; `fill` stands for agents too
                that saw nothing then.
        """
        return self._found("observations", indices, agent_ids, **how)

    def get_infos(self, indices: Any = None, agent_ids: Any = None, **how: Any) -> Any:
        """What the environment said beside them, as `get_observations`."""
        return self._found("infos", indices, agent_ids, **how)

    def get_actions(self, indices: Any = None, agent_ids: Any = None, **how: Any) -> Any:
        """Actions, as `get_observations`: each in the step in which the agent acted."""
        return self._found("actions", indices, agent_ids, **how)

    def get_rewards(self, indices: Any = None, agent_ids: Any = None, **how: Any) -> Any:
        """Rewards, as `get_observations`: each in the step behind which the agent saw something again."""
        return self._found("rewards", indices, agent_ids, **how)

    def get_extra_model_outputs(
        self, key: str | None = None, indices: Any = None, agent_ids: Any = None, **how: Any
    ) -> Any:
        """What the model gave beside the actions, under one name, or all of it by name; as `get_actions`."""
        if key is not None:
            return self._found(key, indices, agent_ids, is_output=True, **how)
        episodes = self.agent_episodes.values()
        keys = dict.fromkeys(name for episode in episodes for name in episode.extra_model_outputs)
        return {name: self.get_extra_model_outputs(name, indices, agent_ids, **how) for name in keys}

    def _found(
        self,
        what: str,
        indices: Any,
        agent_ids: Any,
        *,
        env_steps: bool = True,
        return_list: bool = False,
        is_output: bool = False,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        wanted = _several(agent_ids, self.agent_episodes)
        how = {"fill": fill, "one_hot_discrete": one_hot_discrete}
        columns: dict[Any, Any] = {}
        for agent in wanted:
            if (episode := self.agent_episodes.get(agent)) is not None:
                column = episode.extra_model_outputs.get(what) if is_output else getattr(episode, what)
                if column is not None:
                    columns[agent] = column
        if not env_steps:
            if return_list:
                raise ValueError("a list of steps is one of the environment's steps: env_steps=True")
            how["neg_index_as_lookback"] = neg_index_as_lookback
            return {agent: column.get(indices, **how) for agent, column in columns.items()}
        kind = "outputs" if is_output else what
        end = self.env_t + (kind in ("observations", "infos"))

        def at(step: int) -> dict[Any, Any]:
            found = {agent: self._at(kind, what, agent, column, step, **how) for agent, column in columns.items()}
            return {agent: item for agent, item in found.items() if item is not _ABSENT}

        steps = self._steps(indices, end, is_lookback=neg_index_as_lookback, is_filled=fill is not None)
        if isinstance(steps, int):
            return at(steps)
        rows = [at(step) for step in steps]
        if return_list:
            return rows
        by_agent = {agent: [row[agent] for row in rows if agent in row] for agent in columns}
        return {
            agent: stack(items) if columns[agent].finalized else items for agent, items in by_agent.items() if items
        }

    def _steps(self, indices: Any, end: int, *, is_lookback: bool, is_filled: bool) -> Any:
        """Which steps of the whole episode are meant."""

        def step(index: int) -> int:
            return (self.env_t_started if index >= 0 or is_lookback else end) + int(index)

        if indices is None:
            return range(self.env_t_started, end)
        if isinstance(indices, slice):
            start = self.env_t_started if indices.start is None else step(indices.start)
            stop = end if indices.stop is None else step(indices.stop)
            if not is_filled:
                start, stop = max(start, self._first), min(stop, end)
            return range(start, stop, indices.step or 1)
        for index in indices if isinstance(indices, list | tuple) else [indices]:
            if not is_filled and not self._first <= step(index) < end:
                before = self.env_t_started - self._first
                raise IndexError(f"there is no step {index} in an episode of {len(self)}, with {before} before it")
        return [step(index) for index in indices] if isinstance(indices, list | tuple) else step(indices)

    def _at(self, kind: str, key: str, agent: Any, column: Any, step: int, *, fill: Any, one_hot_discrete: bool) -> Any:
        track = self._tracks[agent]
        times, behind = (track.acted, 0) if kind in ("actions", "outputs") else (track.seen, int(kind == "rewards"))
        place = bisect_left(times, step + behind)
        item = _ABSENT
        if place < len(times) and times[place] == step + behind and place >= behind:
            item = column._cut(place - behind)
        elif (deed := track.deed) is not None and deed.step == step:
            # It waits for what comes of it.
            waiting = {"actions": deed.action, "outputs": deed.outputs.get(key, _ABSENT)}
            item = waiting.get(kind, _ABSENT)
        if item is _ABSENT:
            return _ABSENT if fill is None else column._filled(fill)
        return column._one_hot(item) if one_hot_discrete else item

    # What is changed.

    def to_numpy(self) -> MultiAgentEpisode:
        """Makes arrays of the lists of all agents' episodes. Infos stay lists."""
        for episode in self.agent_episodes.values():
            episode.to_numpy()
        return self

    finalize = to_numpy

    # Parts.

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """The part that comes next: it begins with the last observations of agents that are not done, and may look back at so many steps."""
        if self.is_done:
            raise AssertionError("this episode is over: nothing comes behind it")
        part = MultiAgentEpisode(
            self.id_,
            self.agent_ids,
            observation_space=self.observation_space,
            action_space=self.action_space,
            env_t_started=self.env_t,
            agent_t_started={agent: episode.t for agent, episode in self.agent_episodes.items()},
            agent_episode_ids={agent: episode.id_ for agent, episode in self.agent_episodes.items()},
            agent_module_ids=self._module_ids,
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
        )
        part._first = max(self._first, self.env_t - len_lookback_buffer)
        part.custom_data = self.custom_data
        part._over = set(self._over)
        part.is_reset = self.is_reset
        for agent, track in self._tracks.items():
            episode = self.agent_episodes.get(agent)
            if episode is None:
                part._tracks[agent] = track.behind(0)
            elif not episode.is_done:
                last = len(track.seen) - 1
                back = last - min(bisect_left(track.seen, part._first), last)
                part.agent_episodes[agent] = episode.cut(back)
                part._tracks[agent] = track.behind(last - back)
        return part

    def concat_episode(self, other: MultiAgentEpisode) -> None:
        """Adds the part that comes next, as `cut` began it."""
        if other.id_ != self.id_ or self.is_done or self.env_t != other.env_t_started:
            raise AssertionError("that is not the part that comes behind this one")
        for agent, episode in other.agent_episodes.items():
            theirs = other._tracks[agent]
            if agent not in self.agent_episodes:
                self.agent_episodes[agent], self._tracks[agent] = episode, theirs
                continue
            self.agent_episodes[agent].concat_episode(episode)
            track, steps = self._tracks[agent], len(episode)
            # What was not acted upon may have given way to something newer.
            track.seen[-1:] = theirs.seen[len(theirs.seen) - steps - 1 :]
            track.acted += theirs.acted[len(theirs.acted) - steps :]
            track.deed, track.earned = theirs.deed, theirs.earned
            self._take_first(agent, episode)
        for agent, theirs in other._tracks.items():
            if agent not in self.agent_episodes:
                self._tracks[agent] = theirs
        self.agent_ids |= other.agent_ids
        self._over |= other._over
        self.env_t = other.env_t
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated
        self._last_step = other._last_step

    def _take_first(self, agent: Any, part: SingleAgentEpisode) -> None:
        """Lets an agent's episode have the observation that a part of it, already added, began with."""
        at = -len(part) - 1
        mine = self.agent_episodes[agent]
        mine.observations.set(part.observations.get(0), at)
        mine.infos.set(part.infos.get(0), at)

    # As columns.

    def get_sample_batch(self) -> MultiAgentBatch:
        """Its columns by agent."""
        batches = {agent: episode.get_sample_batch() for agent, episode in self.agent_episodes.items()}
        return MultiAgentBatch(batches, len(self))

    def get_state(self) -> dict[str, Any]:
        """All that `from_state` needs; functions are not part of it."""
        left_out = ("agent_to_module_mapping_fn", "_began", "_last_step")
        return {key: value for key, value in vars(self).items() if key not in left_out}

    @staticmethod
    def from_state(state: dict[str, Any]) -> MultiAgentEpisode:
        """The episode of such a state."""
        made = MultiAgentEpisode(state["id_"])
        vars(made).update(state)
        return made

    def __repr__(self) -> str:
        done = f", done after a return of {self.get_return():g}" if self.is_done else ""
        return f"MAEps(len={len(self)}, agents={sorted(map(str, self.agent_episodes))}{done}, id={self.id_})"


def _columns(episode: SingleAgentEpisode) -> list[Any]:
    columns = [episode.observations, episode.infos, episode.actions, episode.rewards]
    return [*columns, *episode.extra_model_outputs.values()]


def _by_agent(ends: dict[Any, bool] | bool) -> dict[Any, bool]:  # noqa: FBT001
    return ends if isinstance(ends, dict) else {_ALL: bool(ends)}


def _of(spaces: Any, agent: Any) -> Any:
    """The space of an agent among those by agent, as a dictionary or a space that is one."""
    spaces = getattr(spaces, "spaces", spaces)
    return spaces.get(agent) if isinstance(spaces, dict) else None


def _several(agent_ids: Any, known: Iterable[Any]) -> list[Any]:
    if agent_ids is None:
        return list(known)
    return list(agent_ids) if isinstance(agent_ids, list | tuple | set | frozenset) else [agent_ids]


__all__ = ["MultiAgentEpisode"]
