"""Episodes of one agent, as programs make and fill them themselves."""

from __future__ import annotations

import time
import uuid
from typing import Any

from eagleray.rllib.env._episode import AlsoSeen
from eagleray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from eagleray.rllib.policy.sample_batch import SampleBatch


class SingleAgentEpisode(metaclass=AlsoSeen):
    """An episode, or a part of one: observations, infos, actions, rewards and what the model gave beside its actions.

    There is one observation more than there are actions. What is given at birth may be looked back at and does not count, unless
    `len_lookback_buffer` says how much of it is of before.

    Args:
        id_: its name; parts of one episode share it.
        observations: so far.
        observation_space: of a single observation.
        infos: one for each observation.
        actions: so far.
        action_space: of a single action.
        rewards: one for each action.
        terminated: whether it has come to its end.
        truncated: whether it was cut off.
        extra_model_outputs: lists by name, one item for each action.
        t_started: at which step of the episode this part begins.
        len_lookback_buffer: how many of the steps are of before; "auto" for all.
        agent_id: whose it is, among several agents.
        module_id: by which module the agent acts.
        multi_agent_episode_id: of which episode of several agents it is a part.
    """

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: Any = None,
        observation_space: Any = None,
        infos: Any = None,
        actions: Any = None,
        action_space: Any = None,
        rewards: Any = None,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: dict[str, Any] | None = None,
        t_started: int | None = None,
        len_lookback_buffer: int | str = "auto",
        agent_id: Any = None,
        module_id: str | None = None,
        multi_agent_episode_id: Any = None,
    ) -> None:
        self.id_ = id_ or uuid.uuid4().hex
        self.agent_id, self.module_id, self.multi_agent_episode_id = agent_id, module_id, multi_agent_episode_id
        self.observation_space, self.action_space = observation_space, action_space
        before = len(rewards) if rewards is not None else 0
        if len_lookback_buffer != "auto":
            before = min(int(len_lookback_buffer), before)
        if infos is None and observations is not None:
            infos = [{} for _ in range(len(observations))]
        self.observations = _buffer(observations, before, observation_space)
        self.infos = _buffer(infos, before)
        self.actions = _buffer(actions, before, action_space)
        self.rewards = _buffer(rewards, before)
        self.extra_model_outputs = {key: _buffer(data, before) for key, data in (extra_model_outputs or {}).items()}
        self.is_terminated, self.is_truncated = bool(terminated), bool(truncated)
        self.t_started = t_started or 0
        self.t = self.t_started + len(self.rewards)
        #: For callbacks to write into.
        self.custom_data: dict[str, Any] = {}
        self._began = self._last_step = time.perf_counter()
        self.validate()

    # What comes in.

    def add_env_reset(self, observation: Any, infos: dict[str, Any] | None = None) -> None:
        """What `env.reset()` gave."""
        if len(self.observations):
            raise AssertionError("this episode has been reset: it has an observation")
        if self.is_done:
            raise AssertionError("this episode is over")
        self.observations.append(observation)
        self.infos.append(infos or {})
        self._began = self._last_step = time.perf_counter()

    def add_env_step(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        infos: dict[str, Any] | None = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
        extra_model_outputs: dict[str, Any] | None = None,
    ) -> None:
        """What `env.step(action)` gave, with the action."""
        if self.is_done:
            raise AssertionError("this episode is over: no step can be added to it")
        if not len(self.observations):
            raise AssertionError("an episode begins with `add_env_reset`")
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        self.infos.append(infos or {})
        self.t += 1
        for key, value in (extra_model_outputs or {}).items():
            self.extra_model_outputs.setdefault(key, InfiniteLookbackBuffer()).append(value)
        self.is_terminated, self.is_truncated = bool(terminated), bool(truncated)
        self._last_step = time.perf_counter()
        self.validate()

    def validate(self) -> None:
        """Raises what does not fit together.

        Raises:
            AssertionError: if there are not as many observations, actions, rewards and outputs as belong together.
        """
        steps = len(self.rewards)
        if not len(self.observations) and not steps:
            return
        lengths = {"actions": len(self.actions), "observations - 1": len(self.observations) - 1}
        lengths |= {key: len(data) for key, data in self.extra_model_outputs.items()}
        for what, length in lengths.items():
            if length != steps:
                raise AssertionError(f"there are {steps} rewards, and {length} {what}")

    # What is known.

    @property
    def is_done(self) -> bool:
        """Whether it is over."""
        return self.is_terminated or self.is_truncated

    @property
    def is_reset(self) -> bool:
        """Whether it has its first observation."""
        return len(self.observations) > 0

    @property
    def is_numpy(self) -> bool:
        """Whether its data are arrays."""
        return self.observations.finalized

    is_finalized = is_numpy

    def __len__(self) -> int:
        return self.t - self.t_started

    def env_steps(self) -> int:
        """Its steps."""
        return len(self)

    agent_steps = env_steps

    def get_return(self) -> float:
        """The sum of its rewards."""
        return float(sum(float(reward) for reward in self.rewards.get()))

    def get_duration_s(self) -> float:
        """Seconds from its first observation to its last."""
        return self._last_step - self._began

    def get_observations(self, indices: Any = None, **how: Any) -> Any:
        """Observations: all, one by its place, or several; `how` as in `InfiniteLookbackBuffer.get`."""
        return self.observations.get(indices, **how)

    def get_infos(self, indices: Any = None, **how: Any) -> Any:
        """What the environment said beside them."""
        return self.infos.get(indices, **how)

    def get_actions(self, indices: Any = None, **how: Any) -> Any:
        """Actions."""
        return self.actions.get(indices, **how)

    def get_rewards(self, indices: Any = None, **how: Any) -> Any:
        """Rewards."""
        return self.rewards.get(indices, **how)

    def get_extra_model_outputs(self, key: str | None = None, indices: Any = None, **how: Any) -> Any:
        """What the model gave beside its actions, under one name, or all of it."""
        if key is None:
            return {name: data.get(indices, **how) for name, data in self.extra_model_outputs.items()}
        return self.extra_model_outputs[key].get(indices, **how)

    # What is changed.

    def set_observations(self, *, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False) -> None:
        """Puts other observations in their place."""
        self.observations.set(new_data, at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def set_actions(self, *, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False) -> None:
        """Puts other actions in their place."""
        self.actions.set(new_data, at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def set_rewards(self, *, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False) -> None:
        """Puts other rewards in their place."""
        self.rewards.set(new_data, at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def set_extra_model_outputs(
        self, *, key: str, new_data: Any, at_indices: Any = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Puts other outputs in their place, or a new column of them."""
        if key not in self.extra_model_outputs:
            self.extra_model_outputs[key] = _buffer(new_data, 0)
        else:
            self.extra_model_outputs[key].set(new_data, at_indices, neg_index_as_lookback=neg_index_as_lookback)

    def to_numpy(self) -> SingleAgentEpisode:
        """Makes arrays of its lists. Infos stay a list."""
        for data in (self.observations, self.actions, self.rewards, *self.extra_model_outputs.values()):
            data.finalize()
        return self

    finalize = to_numpy

    # Parts.

    def cut(self, len_lookback_buffer: int = 0) -> SingleAgentEpisode:
        """The part that comes next: it begins with this one's last observation, and may look back at so many of its steps."""
        if self.is_done:
            raise AssertionError("this episode is over: nothing comes behind it")
        steps = min(len_lookback_buffer, len(self.rewards) + self.rewards.lookback)
        back = slice(-steps, None) if steps else slice(0, 0)
        part = SingleAgentEpisode(
            self.id_,
            observations=_listed(self.observations.get(slice(-steps - 1, None))),
            observation_space=self.observation_space,
            infos=_listed(self.infos.get(slice(-steps - 1, None))),
            actions=_listed(self.actions.get(back)),
            action_space=self.action_space,
            rewards=_listed(self.rewards.get(back)),
            extra_model_outputs={key: _listed(data.get(back)) for key, data in self.extra_model_outputs.items()},
            t_started=self.t,
            len_lookback_buffer="auto",
            agent_id=self.agent_id,
            module_id=self.module_id,
            multi_agent_episode_id=self.multi_agent_episode_id,
        )
        part.custom_data = self.custom_data
        return part

    def concat_episode(self, other: SingleAgentEpisode) -> None:
        """Adds the part that comes next, which begins with the last observation of this one."""
        if other.id_ != self.id_ or self.is_done or self.t != other.t_started:
            raise AssertionError("that is not the part that comes behind this one")
        if self.is_numpy != other.is_numpy:
            raise AssertionError("one of them is of arrays, and one of lists")
        self.observations.extend(_listed(other.observations.get(slice(1, None))))
        self.infos.extend(_listed(other.infos.get(slice(1, None))))
        self.actions.extend(_listed(other.actions.get()))
        self.rewards.extend(_listed(other.rewards.get()))
        for key, data in other.extra_model_outputs.items():
            self.extra_model_outputs.setdefault(key, InfiniteLookbackBuffer()).extend(_listed(data.get()))
        self.t = other.t
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated
        self.validate()

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> SingleAgentEpisode:
        """Some of its steps, as an episode. It may look back at those before them."""
        start, stop, step = slice_.indices(len(self))
        if step != 1:
            raise ValueError("an episode is cut into parts without gaps: a step of 1")
        stop = max(start, stop)
        known = self.rewards.lookback + start
        before = known if len_lookback_buffer is None else min(len_lookback_buffer, known)
        first, ends = start - before, stop == len(self)

        def of(data: InfiniteLookbackBuffer, more: int = 0) -> Any:
            place = data.lookback + first
            return data._cut(slice(place, data.lookback + stop + more))

        return SingleAgentEpisode(
            self.id_,
            observations=of(self.observations, 1),
            observation_space=self.observation_space,
            infos=of(self.infos, 1),
            actions=of(self.actions),
            action_space=self.action_space,
            rewards=of(self.rewards),
            terminated=self.is_terminated and ends,
            truncated=self.is_truncated and ends,
            extra_model_outputs={key: of(data) for key, data in self.extra_model_outputs.items()},
            t_started=self.t_started + start,
            len_lookback_buffer=before,
            agent_id=self.agent_id,
            module_id=self.module_id,
            multi_agent_episode_id=self.multi_agent_episode_id,
        )

    def __getitem__(self, item: Any) -> SingleAgentEpisode:
        if not isinstance(item, slice):
            raise NotImplementedError("a single step is `episode[i : i + 1]`")
        return self.slice(item)

    # As columns.

    def get_data_dict(self) -> dict[str, Any]:
        """Its columns by name."""
        ended = [False] * max(len(self) - 1, 0)
        return {
            SampleBatch.OBS: self.observations.get(slice(0, len(self))),
            SampleBatch.NEXT_OBS: self.observations.get(slice(1, None)),
            SampleBatch.ACTIONS: self.actions.get(),
            SampleBatch.REWARDS: self.rewards.get(),
            SampleBatch.INFOS: self.infos.get(slice(0, len(self))),
            SampleBatch.TERMINATEDS: [*ended, self.is_terminated] if len(self) else [],
            SampleBatch.TRUNCATEDS: [*ended, self.is_truncated] if len(self) else [],
            SampleBatch.EPS_ID: [self.id_] * len(self),
            SampleBatch.T: list(range(self.t_started, self.t)),
            **{key: data.get() for key, data in self.extra_model_outputs.items()},
        }

    def get_sample_batch(self) -> SampleBatch:
        """The same as a batch."""
        return SampleBatch(self.get_data_dict())

    def get_state(self) -> dict[str, Any]:
        """All that `from_state` needs."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    @staticmethod
    def from_state(state: dict[str, Any]) -> SingleAgentEpisode:
        """The episode of such a state."""
        made = SingleAgentEpisode(state["id_"])
        vars(made).update(state)
        return made

    def __repr__(self) -> str:
        done = f", done after a return of {self.get_return():g}" if self.is_done else ""
        return f"SAEps(len={len(self)}{done}, id={self.id_})"


def _buffer(data: Any, lookback: int, space: Any = None) -> InfiniteLookbackBuffer:
    if isinstance(data, InfiniteLookbackBuffer):
        return data
    # What is given stays the program's.
    return InfiniteLookbackBuffer(list(data) if isinstance(data, list) else data, lookback, space)


def _listed(items: Any) -> Any:
    """Items one by one; of arrays, their rows."""
    if isinstance(items, list):
        return items
    if isinstance(items, dict):
        columns = {key: _listed(column) for key, column in items.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if isinstance(items, tuple):
        return list(zip(*(_listed(column) for column in items), strict=True))
    return list(items)


__all__ = ["SingleAgentEpisode"]
