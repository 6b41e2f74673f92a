"""The built-in environments, many at once, to be stepped from Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from eagleray._common.near import nearest
from eagleray.rllib.utils.error import EnvError, numpy_needed

numpy_needed()
import numpy as np  # noqa: E402 - only once it is known to be there

from eagleray._native import rl  # noqa: E402

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Floats


class NativeVectorEnv:
    """`num_envs` copies of a built-in environment behind the calls of gymnasium's vector environments.

    An episode that ends is followed by the next one in the same step: what is returned is the first observation of the next, and the last of
    the one that ended lies in `infos["final_obs"]`, in rows where `terminated | truncated`.
    """

    def __init__(self, name: str, num_envs: int = 1, *, copy: bool = True, **config: Any) -> None:
        """With `copy=False` the same arrays are returned and written over at each step: nothing is allocated."""
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        try:
            self._native = rl.VectorEnv(name, num_envs, json.dumps(config))
        except ValueError as error:
            near = nearest(name, rl.environments())
            hint = f" (did you mean {near!r}?)" if near and near != name else ""
            raise EnvError(f"{error}{hint}") from None
        self.name, self.num_envs = name, num_envs
        #: The spaces of one copy: `{"observed": ..., "acted": ...}`, plain numbers.
        self.spaces: dict[str, Any] = json.loads(self._native.spaces)
        ((_, seen), *_) = self.spaces["observed"].items()
        self._copies = copy
        self._observed: Floats = np.zeros((num_envs, *seen["shape"]), np.float32)
        self._last: Floats = np.zeros_like(self._observed)
        self._rewards: Floats = np.zeros(num_envs, np.float32)
        self._terminated = np.zeros(num_envs, np.uint8)
        self._truncated = np.zeros(num_envs, np.uint8)
        # The same bytes, told as what they are.
        self._ends = self._terminated.view(np.bool_), self._truncated.view(np.bool_)

    def reset(self, *, seed: int | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begin all episodes; copy `i` begins as gymnasium's environment does under `seed + i`."""
        self._native.reset(seed, self._observed)
        return self._given(self._observed), {}

    def step(self, actions: Any) -> tuple[Floats, Floats, Any, Any, dict[str, Any]]:
        """One step of each: observations, rewards, terminated, truncated, infos."""
        self._native.step(
            np.ascontiguousarray(actions, np.float32),
            self._observed,
            self._rewards,
            self._terminated,
            self._truncated,
            self._last,
        )
        terminated, truncated = self._ends
        return (
            self._given(self._observed),
            self._given(self._rewards),
            self._given(terminated),
            self._given(truncated),
            {"final_obs": self._given(self._last)},
        )

    def drive(self, steps: int, *, seed: int = 0) -> None:
        """So many steps of each by actions drawn at random, without coming back in between."""
        self._native.drive(steps, seed)

    def close(self) -> None:
        """Nothing is held that has to be given back."""

    def _given(self, column: Any) -> Any:
        return column.copy() if self._copies else column
