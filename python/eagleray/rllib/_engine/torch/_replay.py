"""What was seen, kept to learn from again: plain, or the surprising more often. As `crates/rl/src/replay.rs`, over numpy's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Floats
    from eagleray.rllib._engine.torch._columns import Columns


class Replay:
    """Steps of environments, each with what came of it; the oldest go first."""

    def __init__(self, capacity: int, *, is_prioritised: bool) -> None:
        self._capacity = max(1, capacity)
        self._columns: dict[str, Any] = {}
        self._len = 0
        self._at = 0
        self._tree = _SumTree(self._capacity) if is_prioritised else None
        #: The largest priority so far: a new one is drawn at least once.
        self._most = 1.0

    def __len__(self) -> int:
        return self._len

    def add(self, columns: Columns, n: int, gamma: float) -> None:
        """Adds the steps of a rollout. Each stands for up to `n` steps; the last of an episode, or of the rollout, stand for fewer."""
        rows = _ahead(columns, n, gamma)
        count = len(rows["rewards"])
        for begin in range(0, count, self._capacity):
            self._put({name: values[begin : begin + self._capacity] for name, values in rows.items()})

    def _put(self, rows: dict[str, Any]) -> None:
        count = len(rows["rewards"])
        places = (self._at + np.arange(count)) % self._capacity
        for name, values in rows.items():
            column = self._columns.get(name)
            wanted = min(self._capacity, max(self._len + count, int(places.max()) + 1))
            if column is None or len(column) < wanted:
                # Twice as long each time: memory follows what is kept, not what may be.
                longer = np.zeros((min(self._capacity, 2 * wanted), *values.shape[1:]), np.float32)
                if column is not None:
                    longer[: len(column)] = column
                column = self._columns[name] = longer
            column[places] = values
        if self._tree is not None:
            self._tree.set(places, np.full(count, self._most))
        self._at = (self._at + count) % self._capacity
        self._len = min(self._capacity, self._len + count)

    def draw(self, count: int, beta: float, chance: np.random.Generator) -> tuple[Any, dict[str, Floats], Floats]:
        """So many rows: where they lie, what they are, and how much each counts."""
        if self._tree is None:
            rows, weights = chance.integers(0, self._len, count), np.ones(count, np.float32)
        else:
            whole = self._tree.whole
            rows = np.minimum(self._tree.find(chance.random(count) * whole), self._len - 1)
            scale = (self._len * self._tree.least / whole) ** -beta
            weights = ((self._len * self._tree.get(rows) / whole) ** -beta / scale).astype(np.float32)
        return rows, {name: column[rows] for name, column in self._columns.items()}, weights

    def set_priorities(self, rows: Any, surprises: Floats, alpha: float) -> None:
        """How surprising these rows were when they were learned from."""
        if self._tree is None:
            return
        priorities = (np.abs(surprises).astype(np.float64) + 1e-6) ** alpha
        self._most = max(self._most, float(priorities.max()))
        self._tree.set(rows, priorities)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its columns, and the rest as JSON has it."""
        arrays = {name: column[: self._len] for name, column in self._columns.items()}
        if self._tree is not None:
            arrays["priorities"] = self._tree.get(np.arange(self._len))
        return arrays, {"len": self._len, "at": self._at, "most": self._most}

    def restore(self, arrays: dict[str, Any], said: dict[str, Any]) -> None:
        """Go on from such a state."""
        self._len, self._at, self._most = said["len"], said["at"], said["most"]
        priorities = arrays.pop("priorities", None)
        self._columns = {name: np.array(values, np.float32) for name, values in arrays.items()}
        if self._tree is not None and priorities is not None:
            self._tree.set(np.arange(self._len), np.asarray(priorities, np.float64))


def _ahead(columns: Columns, n: int, gamma: float) -> dict[str, Any]:
    """Every step with what it brought over up to `n` steps, what was seen behind those, and what that is multiplied with."""
    steps, envs = columns.rewards.shape
    ends = columns.terminated | columns.truncated
    ends[-1] = True
    behind = np.concatenate([columns.observed[1:], columns.open[None]])
    behind[columns.cut[:, 0], columns.cut[:, 1]] = columns.last
    of_env = np.arange(envs)
    rewards, discounts = np.zeros((steps, envs), np.float32), np.ones((steps, envs), np.float32)
    following = np.empty_like(behind)
    for begin in range(steps):
        at = np.full(envs, begin)
        is_going = np.ones(envs, bool)
        for ahead in range(max(1, n)):
            step = min(begin + ahead, steps - 1)
            rewards[begin] += np.where(is_going, discounts[begin] * columns.rewards[step], 0.0)
            discounts[begin] *= np.where(is_going, np.float32(gamma), np.float32(1.0))
            at[is_going] = step
            is_going &= ~ends[step]
            if not is_going.any():
                break
        following[begin] = behind[at, of_env]
        discounts[begin] *= ~columns.terminated[at, of_env]
    flat = steps * envs
    return {
        "observed": columns.observed.reshape(flat, -1),
        "actions": columns.actions.reshape(flat, -1),
        "rewards": rewards.reshape(flat),
        "following": following.reshape(flat, -1),
        "discounts": discounts.reshape(flat),
    }


class _SumTree:
    """Sums and least values over halves, halves of halves and so on; whole batches at a time."""

    def __init__(self, capacity: int) -> None:
        self._leaves = 1 << (capacity - 1).bit_length()
        self._sums = np.zeros(2 * self._leaves)
        self._leasts = np.full(2 * self._leaves, np.inf)

    @property
    def whole(self) -> float:
        """All together."""
        return float(self._sums[1])

    @property
    def least(self) -> float:
        """The smallest."""
        return float(self._leasts[1])

    def get(self, leaves: Any) -> Any:
        """Their values."""
        return self._sums[self._leaves + leaves]

    def set(self, leaves: Any, values: Any) -> None:
        """Sets them."""
        at = self._leaves + np.asarray(leaves)
        self._sums[at] = values
        self._leasts[at] = values
        at = np.unique(at // 2)
        while len(at) and at[0] >= 1:
            self._sums[at] = self._sums[2 * at] + self._sums[2 * at + 1]
            self._leasts[at] = np.minimum(self._leasts[2 * at], self._leasts[2 * at + 1])
            at = np.unique(at // 2)

    def find(self, shares: Any) -> Any:
        """The leaves at which the sum of all before and themselves passes these."""
        at = np.ones(len(shares), np.int64)
        left = np.array(shares, np.float64)
        while at[0] < self._leaves:
            at = 2 * at
            sums = self._sums[at]
            # What rounding leaves at the end goes to the last that has any.
            is_right = (left >= sums) & (self._sums[at + 1] > 0.0)
            left = np.where(is_right, left - sums, left)
            at = at + is_right
        return at - self._leaves
