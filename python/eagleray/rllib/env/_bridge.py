"""Several environments stepped as one: flat columns in, flat columns out.

A step restarts ended episodes at once: `observed` then holds the first observation of the new one, `last` that which the old one ended
with. The arrays are used again at the next step; whoever keeps them copies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eagleray.rllib._engine._columns import is_finite
from eagleray.rllib.env import _single
from eagleray.rllib.env.spaces import ActionForm, ObservationForm
from eagleray.rllib.utils.error import EnvError, NotFiniteError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib._engine.protocol import Acted, Floats, Observed

#: Steps of which each observation is checked against the space; a wrong space shows at once, and later checks would cost more than they find.
_CHECKED_STEPS = 10
#: Rewards that need no look at what they are.
_NUMBERS = frozenset({float, int, np.float32, np.float64})


@dataclass(frozen=True)
class BridgeOptions:
    """How environments are driven."""

    normalize_actions: bool = True
    clip_actions: bool = False
    clip_rewards: bool | float | None = None
    horizon: int | None = None
    seed: int | None = None
    is_checked: bool = True
    #: Whether an environment that raises is made anew instead of ending the runner.
    restarts: bool = False
    #: Where errors are, for their texts.
    label: str = ""
    observation_space: Any = None
    action_space: Any = None


class Bridge:
    """What all bridges have: columns, spaces, checks."""

    def __init__(self, count: int, observation_space: Any, action_space: Any, options: BridgeOptions) -> None:
        observation_space = options.observation_space or observation_space
        action_space = options.action_space or action_space
        if observation_space is None or action_space is None:
            raise EnvError("the environment has no observation_space or no action_space, and the configuration neither")
        self.count = count
        self.options = options
        self.form = ObservationForm(observation_space)
        self.actions = ActionForm(action_space, normalize=options.normalize_actions, clip=options.clip_actions)
        size = self.form.observed.size
        self.observed_rows: Floats = np.zeros((count, size), np.float32)
        self._flat = self.observed_rows.reshape(-1)
        self._rows = list(self.observed_rows)
        self.last: Floats = np.zeros((count, size), np.float32)
        self.rewards: Floats = np.zeros(count, np.float32)
        self.terminated = np.zeros(count, np.bool_)
        self.truncated = np.zeros(count, np.bool_)
        #: Environments whose episode ended with the last step.
        self.ended: list[int] = []
        #: Those of them whose episode broke off, and says nothing about the policy.
        self.broken: list[int] = []
        self.infos: list[Any] = [{}] * count
        #: What was said beside `last`.
        self.last_infos: list[Any] = [{}] * count
        #: As the environments gave them, before clipping.
        self.raw_rewards: list[float] = [0.0] * count
        self.steps = 0
        #: How often an environment was made anew after it raised.
        self.restarts = 0
        self._is_ended = False
        # The step at which each episode began, and the one at which it is cut.
        self._began = [0] * count
        self._cut_at: list[float] = [math.inf] * count

    @property
    def observed(self) -> Observed:
        """What networks see."""
        return self.form.observed

    @property
    def acted(self) -> Acted:
        """What networks choose."""
        return self.actions.acted

    def reset(self) -> Floats:
        """Begins all episodes anew."""
        for index in range(self.count):
            self._begin(index, self._reset_one(index))
        self._check_finite()
        return self.observed_rows

    def step(self, rows: Floats) -> None:
        """Does one step in each environment. What came of it stands in the columns."""
        self.ended.clear()
        self.broken.clear()
        self.steps += 1
        if self._is_ended:
            self.terminated[:] = self.truncated[:] = False
        self._step_all(self.actions.actions(rows))
        self._is_ended = bool(self.ended)
        self._check_finite()
        clip = self.options.clip_rewards
        self.rewards[:] = self.raw_rewards
        if clip is not None and clip is not False:
            if clip is True:
                np.sign(self.rewards, out=self.rewards)
            else:
                np.clip(self.rewards, -float(clip), float(clip), out=self.rewards)

    def close(self) -> None:
        """Lets go of the environments."""

    def environment(self, index: int) -> Any:
        """One of them, as the program made it."""
        return None

    def environments(self) -> list[Any]:
        """All of them, as the program made them."""
        return [self.environment(index) for index in range(self.count)]

    # What kinds of environments do each in their own way.

    def _reset_one(self, index: int) -> Any:
        raise NotImplementedError

    def _step_all(self, actions: list[Any]) -> None:
        raise NotImplementedError

    # Helpers of theirs.

    def _begin(self, index: int, observation: Any) -> None:
        self._began[index] = self.steps
        self._cut_at[index] = self.steps + (self.options.horizon or math.inf)
        if self.options.is_checked and self.steps <= _CHECKED_STEPS:
            self.form.check(observation, self._where(index, "reset"))
        self._write(index, "reset", observation, self.observed_rows[index])

    def _store(self, index: int, observation: Any, reward: Any, *, terminated: bool, truncated: bool) -> None:
        if self.steps >= self._cut_at[index]:
            truncated = truncated or not terminated
        try:
            self.raw_rewards[index] = float(reward)
        except (TypeError, ValueError):
            raise EnvError(f"{self._where(index, 'step')}the reward is {reward!r}, not a number") from None
        if self.options.is_checked and self.steps <= _CHECKED_STEPS:
            self.form.check(observation, self._where(index, "step"))
        if terminated or truncated:
            self.terminated[index], self.truncated[index] = terminated, truncated
            self._write(index, "step", observation, self.last[index])
            self.last_infos[index] = self.infos[index]
            self.ended.append(index)
            self._begin(index, self._reset_one(index))
        else:
            self._write(index, "step", observation, self.observed_rows[index])

    def _write(self, index: int, what: str, observation: Any, row: Floats) -> None:
        try:
            self.form.write(observation, row)
        except SpaceMismatchError as error:
            raise SpaceMismatchError(f"{self._where(index, what)}{error}") from None

    def _where(self, index: int, what: str) -> str:
        return f"{self.options.label}sub-environment {index}, {what} (vector step {self.steps}): "

    def _check_finite(self) -> None:
        # Which one it is, is asked only if there is one.
        is_fine = is_finite(self._flat) and math.isfinite(sum(self.raw_rewards))
        if is_fine and (not self.ended or np.isfinite(self.last[self.ended]).all()):
            return
        for index in range(self.count):
            if not math.isfinite(self.raw_rewards[index]):
                raise NotFiniteError(f"{self._where(index, 'step')}the reward is {self.raw_rewards[index]!r}")
            for rows in (self.observed_rows, self.last):
                if not np.isfinite(rows[index]).all() and (rows is self.observed_rows or index in self.ended):
                    raise NotFiniteError(f"{self._where(index, 'step')}the observation is {rows[index].tolist()!r}")


class GymBridge(Bridge):
    """Environments with `reset` and `step`, of either era."""

    def __init__(self, make: Callable[[int], Any], count: int, options: BridgeOptions) -> None:
        self._make = make
        self._whole = [make(index) for index in range(count)]
        self._envs: list[Any] = []
        limits = []
        for env in self._whole:
            inner, limit = _single.peeled(env)
            self._envs.append(inner)
            limits.append(limit)
        known = [limit for limit in (limits[0], options.horizon) if limit is not None]
        options = replace(options, horizon=min(known, default=None))
        first = self._whole[0]
        super().__init__(
            count, getattr(first, "observation_space", None), getattr(first, "action_space", None), options
        )
        self._is_seeded = [False] * count
        self._steps = [env.step for env in self._envs]

    def environment(self, index: int) -> Any:
        """One of them, as the program made it."""
        return self._whole[index]

    def close(self) -> None:
        """Lets go of the environments."""
        for env in self._whole:
            if callable(end := getattr(env, "close", None)):
                end()

    def _reset_one(self, index: int) -> Any:
        seed = None
        if not self._is_seeded[index] and self.options.seed is not None:
            seed = self.options.seed + index
        self._is_seeded[index] = True
        try:
            observation, self.infos[index] = _single.reset(self._envs[index], seed)
        except EnvError as error:
            raise EnvError(f"{self._where(index, 'reset')}{error}") from None
        except Exception as error:
            error.add_note(f"in {self._where(index, 'reset')[:-2]}")
            raise
        return observation

    def _step_all(self, actions: list[Any]) -> None:
        is_plain = self.form.is_plain and (self.steps > _CHECKED_STEPS or not self.options.is_checked)
        raw_rewards, write, infos, cut_at, now = self.raw_rewards, self._rows, self.infos, self._cut_at, self.steps
        size = self.form.observed.size
        for index, step in enumerate(self._steps):
            try:
                said = step(actions[index])
            except Exception as error:
                error.add_note(f"in {self._where(index, 'step')[:-2]}")
                if not self.options.restarts:
                    raise
                self._restart(index)
                continue
            if is_plain and type(said) is tuple and len(said) == 5:
                # HOT: what most environments do at most steps, without a call. `_store` does the same and more.
                observation, reward, terminated, truncated, infos[index] = said
                if not terminated and not truncated and now < cut_at[index] and type(reward) in _NUMBERS:
                    try:
                        # A single number would be spread over the whole row.
                        if len(observation) != size:
                            raise ValueError
                        write[index][:] = observation
                    except (TypeError, ValueError):
                        self._write(index, "step", observation, write[index])  # says what is wrong with it
                    raw_rewards[index] = reward
                    continue
            try:
                observation, reward, terminated, truncated, infos[index] = _single.parts(said)
            except EnvError as error:
                raise EnvError(f"{self._where(index, 'step')}{error}") from None
            self._store(index, observation, reward, terminated=terminated, truncated=truncated)

    def _restart(self, index: int) -> None:
        """Makes an environment anew. What it did until then is kept, and counts as cut off."""
        self.restarts += 1
        self._whole[index] = self._make(index)
        self._envs[index], _ = _single.peeled(self._whole[index])
        self._steps[index] = self._envs[index].step
        self.last[index] = self.observed_rows[index]
        self.raw_rewards[index] = 0.0
        self.terminated[index], self.truncated[index] = False, True
        self.ended.append(index)
        self.broken.append(index)
        self._begin(index, self._reset_one(index))


class VectorEnvBridge(Bridge):
    """A program's own `VectorEnv`, which steps its environments itself."""

    def __init__(self, env: Any, options: BridgeOptions) -> None:
        self._env = env
        self._started = False
        self._first: list[Any] = []
        super().__init__(int(env.num_envs), env.observation_space, env.action_space, options)

    def environment(self, index: int) -> Any:
        """The whole of it."""
        return self._env

    def environments(self) -> list[Any]:
        """Its parts, or the whole where it does not say them."""
        return list(self._env.get_sub_environments()) or [self._env]

    def reset(self) -> Floats:
        """Begins all episodes anew."""
        said = self._env.vector_reset()
        observations = said[0] if isinstance(said, tuple) and len(said) == 2 and _are_infos(said[1]) else said
        for index, observation in enumerate(observations):
            self._begin(index, observation)
        self._check_finite()
        return self.observed_rows

    def _reset_one(self, index: int) -> Any:
        said = self._env.reset_at(index)
        if isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], dict):
            return said[0]
        return said

    def _step_all(self, actions: list[Any]) -> None:
        said = self._env.vector_step(actions)
        observations, rewards, terminated, *cut, infos = said
        truncated = cut[0] if cut else [False] * self.count
        for index in range(self.count):
            self.infos[index] = infos[index] if index < len(infos) else {}
            self._store(
                index,
                observations[index],
                rewards[index],
                terminated=bool(terminated[index]),
                truncated=bool(truncated[index]),
            )


def _are_infos(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(info, dict) for info in given)
