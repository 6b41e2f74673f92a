"""Running means and deviations in numpy, for policies that are not native. Bytes are those of the native filters: both read them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Flags, Floats

#: As in `crates/rl/src/filter.rs`.
_EPSILON = 1e-8
_MOST = 10.0


class Moments:
    """How many rows were seen, their means, and the sums of squares around those."""

    def __init__(self, columns: int) -> None:
        self.count = 0.0
        self.means = np.zeros(columns)
        self.squares = np.zeros(columns)

    def see(self, rows: Any) -> None:
        """Count these rows."""
        other = Moments(len(self.means))
        wide = np.asarray(rows, np.float64)
        other.count = float(len(wide))
        other.means = wide.mean(0)
        other.squares = ((wide - other.means) ** 2).sum(0)
        self.merge(other)

    def merge(self, other: Moments) -> None:
        """Count all that another has."""
        if other.count == 0.0:
            return
        count = self.count + other.count
        apart = other.means - self.means
        self.means = self.means + apart * (other.count / count)
        self.squares = self.squares + other.squares + apart**2 * (self.count * other.count / count)
        self.count = count

    def factors(self) -> Any:
        """What deviations from the means are multiplied with."""
        variances = np.ones(len(self.means)) if self.count < 2.0 else self.squares / self.count
        return 1.0 / np.sqrt(variances + _EPSILON)

    def copy(self) -> Moments:
        """The same, to be changed alone."""
        made = Moments(len(self.means))
        made.merge(self)
        return made

    def pack(self) -> bytes:
        """As the native filters write them."""
        size = _varint(len(self.means))
        columns = (size + np.asarray(column, "<f8").tobytes() for column in (self.means, self.squares))
        return struct.pack("<d", self.count) + b"".join(columns)

    @classmethod
    def unpack(cls, data: bytes, at: int = 0) -> tuple[Moments, int]:
        """Reads what lies there, and where it ends."""
        (count,) = struct.unpack_from("<d", data, at)
        at += 8
        columns = []
        for _ in range(2):
            size, at = _read_varint(data, at)
            columns.append(np.frombuffer(data, "<f8", size, at).copy())
            at += 8 * size
        made = cls(len(columns[0]))
        made.count, (made.means, made.squares) = count, columns
        return made, at


class Filter:
    """Brings observations and rewards to one scale, and learns that scale on the way."""

    def __init__(self, columns: int, count: int, *, observes: bool, rewards: bool, gamma: float) -> None:
        self._observes, self._rewards, self._gamma = observes, rewards, gamma
        self._all = [Moments(columns), Moments(1)]
        self._delta = [Moments(columns), Moments(1)]
        self._running = np.zeros(count)

    def observe(self, rows: Floats) -> Floats:
        """Count these rows, and give them at scale."""
        if self._observes:
            self._see(0, rows)
        return self.scale(rows)

    def scale(self, rows: Floats) -> Floats:
        """These rows at scale."""
        if not self._observes:
            return rows
        moments = self._all[0]
        scaled = ((rows - moments.means) * moments.factors()).astype(np.float32)
        clipped: Floats = np.clip(scaled, -_MOST, _MOST)
        return clipped

    def reward(self, rewards: Floats, ends: Flags) -> Floats:
        """Count a step's rewards, and give them at scale."""
        if not self._rewards:
            return rewards
        self._running = self._running * self._gamma + rewards
        self._see(1, self._running[:, None])
        self._running[ends] = 0.0
        scaled: Floats = (rewards * self._all[1].factors()[0]).astype(np.float32)
        return np.clip(scaled, -_MOST, _MOST)

    def _see(self, which: int, rows: Any) -> None:
        self._all[which].see(rows)
        self._delta[which].see(rows)

    def moments(self) -> bytes:
        """The moments of all."""
        return b"".join(one.pack() for one in self._all)

    def take_delta(self) -> bytes:
        """What was seen here since this was last asked."""
        told = b"".join(one.pack() for one in self._delta)
        self._delta = [Moments(len(one.means)) for one in self._delta]
        return told

    def merge(self, delta: bytes) -> None:
        """Count what another has seen."""
        for mine, theirs in zip(self._all, _both(delta), strict=True):
            mine.merge(theirs)

    def set_moments(self, moments: bytes) -> None:
        """These are the moments of all, beside what was seen here and not told yet."""
        self._all = _both(moments)
        for mine, fresh in zip(self._all, self._delta, strict=True):
            mine.merge(fresh)

    def state(self) -> bytes:
        """All of it."""
        return self.moments() + b"".join(one.pack() for one in self._delta) + self._running.tobytes()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        at, found = 0, []
        for _ in range(4):
            one, at = Moments.unpack(state, at)
            found.append(one)
        self._all, self._delta = found[:2], found[2:]
        self._running = np.frombuffer(state, np.float64, offset=at).copy()


def observed_of(moments: bytes) -> Moments:
    """Of moments as they travel: those of observations."""
    return Moments.unpack(moments)[0]


def _both(data: bytes) -> list[Moments]:
    first, at = Moments.unpack(data)
    return [first, Moments.unpack(data, at)[0]]


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
