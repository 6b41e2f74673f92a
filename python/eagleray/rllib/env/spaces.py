"""Spaces of gym and gymnasium as networks see them: observations become rows of numbers, rows become actions.

Classes are told apart by their names, so that spaces of gymnasium, of gym and of neither are read alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagleray.rllib._engine.protocol import Acted, Observed
from eagleray.rllib.utils.error import SpaceMismatchError, UnsupportedSpaceException, numpy_needed

numpy_needed()
import numpy as np  # noqa: E402 - only once it is known to be there

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib._engine.protocol import Floats

    Writer = Callable[[Any, Floats], None]


def kind_of(space: Any) -> str:
    """The name of a space's class, or of that among its parents which is a known one."""
    for parent in type(space).__mro__:
        if parent.__name__ in _KINDS:
            return parent.__name__
    return type(space).__name__


_KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")


class ObservationForm:
    """How observations of a space become rows."""

    def __init__(self, space: Any) -> None:
        self.space = space
        self._size, self._write = _writer(space, "observation_space")
        if self._size == 0:
            raise UnsupportedSpaceException(
                f"observation_space {space!r} holds no numbers: a network needs at least one to see"
            )
        is_image = kind_of(space) == "Box" and len(space.shape) == 3
        self.observed = Observed(tuple(space.shape) if is_image else (self._size,))
        #: Whether an observation is a row as it is.
        self.is_plain = kind_of(space) == "Box" and len(space.shape) == 1

    def write(self, observation: Any, row: Floats) -> None:
        """Writes an observation into a row."""
        try:
            self._write(observation, row)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise SpaceMismatchError(f"{self._told(observation)}: {error}") from error

    def row(self, observation: Any) -> Floats:
        """An observation as one row of its own."""
        self.check(observation)
        made = np.empty((1, self._size), np.float32)
        self.write(observation, made[0])
        return made

    def blank(self) -> Floats:
        """A row that says nothing."""
        return np.zeros((1, self._size), np.float32)

    def check(self, observation: Any, where: str = "") -> None:
        """Refuses an observation that the space does not hold, saying what is wrong with it."""
        wrong = _wrong(self.space, observation, "the observation")
        if wrong:
            raise SpaceMismatchError(f"{where}{wrong}; the declared observation_space is {self.space}")

    def _told(self, observation: Any) -> str:
        text = repr(observation)
        short = text if len(text) <= 200 else text[:200] + "..."
        return f"the observation {short} does not fit the declared observation_space {self.space}"


def row_size(space: Any) -> int:
    """Numbers in a row that an observation of this space becomes."""
    return _writer(space, "observation_space")[0]


def _writer(space: Any, where: str) -> tuple[int, Writer]:
    kind = kind_of(space)
    if kind == "Box":
        return _box_writer(space)
    if kind == "Discrete":
        return int(space.n), _one_hot(int(getattr(space, "start", 0)), int(space.n))
    if kind == "MultiDiscrete":
        sizes = np.asarray(space.nvec).reshape(-1)
        starts = np.asarray(_starts(space)).reshape(-1)
        offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))

        def write_several(value: Any, row: Floats) -> None:
            chosen = np.asarray(value, np.int64).reshape(-1) - starts
            # Else a wrong one would be taken for a choice of its neighbour.
            if ((chosen < 0) | (chosen >= sizes)).any():
                raise ValueError(f"it lies outside of {_bounds(space)}")
            row[:] = 0.0
            row[offsets + chosen] = 1.0

        return int(sizes.sum()), write_several
    if kind == "MultiBinary":

        def write_bits(value: Any, row: Floats) -> None:
            row[:] = np.asarray(value, np.float32).reshape(-1)

        return math.prod(np.atleast_1d(space.shape).tolist()), write_bits
    if kind in ("Dict", "Tuple"):
        return _nested_writer(space, kind, where)
    raise UnsupportedSpaceException(
        f"{where} {space!r} is of no kind that a network here can see: {', '.join(_KINDS)} are"
    )


def _box_writer(space: Any) -> tuple[int, Writer]:
    size = math.prod(space.shape)
    # Pictures come as bytes; networks want numbers of the size of one.
    scale = 1 / 255 if np.dtype(space.dtype) == np.uint8 and len(space.shape) == 3 else None
    if scale is not None:

        def write_picture(value: Any, row: Floats) -> None:
            np.multiply(np.asarray(value).reshape(-1), scale, out=row, casting="unsafe")

        return size, write_picture
    if len(space.shape) == 1:

        def write_vector(value: Any, row: Floats) -> None:
            # numpy would spread a single number over the whole row.
            if len(value) != size:
                raise ValueError(f"it has {len(value)} numbers, not {size}")
            row[:] = value

        return size, write_vector

    def write_flat(value: Any, row: Floats) -> None:
        row[:] = np.asarray(value, np.float32).reshape(-1)

    return size, write_flat


def _one_hot(start: int, count: int) -> Writer:
    def write(value: Any, row: Floats) -> None:
        index = int(value) - start
        if not 0 <= index < count:
            raise ValueError(f"{value!r} is outside of [{start}, {start + count})")
        row[:] = 0.0
        row[index] = 1.0

    return write


def _starts(space: Any) -> Any:
    """The least values of a MultiDiscrete: zeros where it does not say them."""
    return getattr(space, "start", np.zeros_like(space.nvec))


def _bounds(space: Any) -> str:
    start = np.asarray(_starts(space))
    return f"[{start.tolist()}, {(start + np.asarray(space.nvec)).tolist()})"


def _nested_writer(space: Any, kind: str, where: str) -> tuple[int, Writer]:
    parts = list(space.spaces.items()) if kind == "Dict" else list(enumerate(space.spaces))
    pieces: list[tuple[Any, slice, Writer]] = []
    end = 0
    for key, part in parts:
        size, write = _writer(part, f"{where}[{key!r}]")
        pieces.append((key, slice(end, end + size), write))
        end += size

    def write_all(value: Any, row: Floats) -> None:
        for key, place, write in pieces:
            write(value[key], row[place])

    return end, write_all


def _wrong(space: Any, value: Any, name: str) -> str | None:
    """What is wrong with a value, or None."""
    kind = kind_of(space)
    if kind in ("Dict", "Tuple"):
        parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
        for key, part in parts:
            try:
                inner = value[key]
            except (KeyError, IndexError, TypeError):
                return f"{name} has no part {key!r}"
            if wrong := _wrong(part, inner, f"{name}'s part {key!r}"):
                return wrong
        return None
    try:
        array = np.asarray(value)
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        return f"{name} is not made of numbers: {value!r}"
    if kind == "Discrete":
        start, count = int(getattr(space, "start", 0)), int(space.n)
        if array.size != 1 or array.dtype.kind not in "iub" or not start <= int(array.reshape(-1)[0]) < start + count:
            return f"{name} is {value!r}, not a whole number in [{start}, {start + count})"
        return None
    shape = tuple(np.atleast_1d(space.shape).tolist()) if kind == "MultiBinary" else tuple(space.shape)
    if array.shape != shape:
        return f"{name} has the shape {array.shape}, not {shape}"
    if np.isnan(numbers).any():
        return f"{name} is not a number: {value!r}"
    if kind == "Box" and np.dtype(space.dtype).kind in "iu" and array.dtype.kind == "f" and (numbers % 1 != 0).any():
        return f"{name} has the type {array.dtype}, not {np.dtype(space.dtype)}"
    if kind == "Box":
        low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
        slack = 1e-5 * np.maximum(1.0, np.where(np.isfinite(high), np.abs(high), 1.0))
        if (numbers < low - slack).any() or (numbers > high + slack).any():
            return f"{name} {value!r} lies outside of its bounds"
        return None
    if kind == "MultiDiscrete":
        chosen = numbers - _starts(space)
        if ((chosen < 0) | (chosen >= np.asarray(space.nvec))).any():
            return f"{name} {value!r} lies outside of {_bounds(space)}"
    if kind == "MultiBinary" and ((numbers != 0) & (numbers != 1)).any():
        return f"{name} {value!r} is not made of zeros and ones"
    return None


class ActionForm:
    """How rows become actions of a space."""

    def __init__(self, space: Any, *, normalize: bool = True, clip: bool = False) -> None:
        self.space = space
        self._normalize, self._clip = normalize, clip
        kind = self._kind = kind_of(space)
        #: Of spaces in others, if there is a Box among them: the form and the columns of each.
        self._parts: list[tuple[ActionForm, slice]] = []
        self._start = int(getattr(space, "start", 0)) if kind == "Discrete" else 0
        if kind == "Box":
            low = np.asarray(space.low, np.float64).reshape(-1)
            high = np.asarray(space.high, np.float64).reshape(-1)
            self.acted = Acted("box", (1,) * low.size, tuple(low.tolist()), tuple(high.tolist()))
            self._bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
            self._low, self._high = low, high
        elif kind in ("Dict", "Tuple") and any(kind_of(leaf) == "Box" for leaf in _leaves(space)):
            self._put_together([ActionForm(leaf, normalize=normalize, clip=clip) for leaf in _leaves(space)])
        else:
            self.acted = Acted("discrete", tuple(_sizes(space)))
        if self.acted.size == 0:
            raise UnsupportedSpaceException(f"action_space {space!r} holds no actions: there is nothing to choose")

    def _put_together(self, leaves: list[ActionForm]) -> None:
        """Choices come first in a row, whatever their place in the space, and then numbers."""
        choices = [form for form in leaves if form.acted.kind == "discrete"]
        numbers = [form for form in leaves if form.acted.kind == "box"]
        ends: dict[int, slice] = {}
        at = 0
        for form in choices + numbers:
            ends[id(form)] = slice(at, at + form.acted.size)
            at += form.acted.size
        self._parts = [(form, ends[id(form)]) for form in leaves]
        sizes = tuple(size for form in choices + numbers for size in form.acted.sizes)
        low = tuple(bound for form in numbers for bound in form.acted.low)
        high = tuple(bound for form in numbers for bound in form.acted.high)
        self.acted = Acted("mixed" if choices else "box", sizes, low, high)

    def actions(self, rows: Floats) -> list[Any]:
        """What the environments are given."""
        space, kind = self.space, self._kind
        if self._parts:
            columns = [form.actions(rows[:, place]) for form, place in self._parts]
            return [_nested(space, iter(leaves)) for leaves in zip(*columns, strict=True)]
        if kind == "Discrete":
            indices = rows[:, 0].astype(np.int64)
            shifted: list[Any] = (indices + self._start if self._start else indices).tolist()
            return shifted
        if kind == "Box":
            values = rows.astype(np.float64)
            if self._normalize and self._bounded:
                values = self._low + (np.clip(values, -1.0, 1.0) + 1.0) * 0.5 * (self._high - self._low)
            elif self._clip:
                values = np.clip(values, self._low, self._high)
            if np.dtype(space.dtype).kind in "iu":
                values = np.rint(values)
            return list(values.astype(space.dtype).reshape(-1, *space.shape))
        return [_whole(space, iter(row)) for row in rows.astype(np.int64)]

    def row(self, action: Any) -> Floats:
        """The row that stands for an action: the way back. Refuses what is no action of the space."""
        try:
            row = self._row(action)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise SpaceMismatchError(f"the action {action!r} does not fit {self.space}: {error}") from None
        return self.checked(row, action)

    def checked(self, row: Floats, action: Any) -> Floats:
        """A row that is one: of the right length, finite, and of choices that there are."""
        fits = row.shape == (1, self.acted.size) and bool(np.isfinite(row).all())
        if fits:
            fits = all(0 <= one < size for one, size in zip(row[0], self.acted.choices, strict=False))
        if not fits:
            raise SpaceMismatchError(f"the action {action!r} does not fit {self.space}")
        return row

    def _row(self, action: Any) -> Floats:
        if self._parts:
            made = np.empty((1, self.acted.size), np.float32)
            for (form, place), leaf in zip(self._parts, _leaf_actions(self.space, action), strict=True):
                made[:, place] = form.row(leaf)
            return made
        if self._kind == "Box":
            values = np.asarray(action, np.float64).reshape(-1)
            if self._normalize and self._bounded:
                values = (values - self._low) / (self._high - self._low) * 2.0 - 1.0
            return values.astype(np.float32).reshape(1, -1)
        return np.asarray([list(_indices(self.space, action))], np.float32)


def _sizes(space: Any) -> list[int]:
    kind = kind_of(space)
    if kind == "Discrete":
        return [int(space.n)]
    if kind == "MultiDiscrete":
        return [int(n) for n in np.asarray(space.nvec).reshape(-1)]
    if kind == "MultiBinary":
        return [2] * math.prod(np.atleast_1d(space.shape).tolist())
    if kind in ("Dict", "Tuple"):
        parts = space.spaces.values() if kind == "Dict" else space.spaces
        return [size for part in parts for size in _sizes(part)]
    raise UnsupportedSpaceException(
        f"action_space {space!r} cannot be acted in: {', '.join(_KINDS[:4])} can, also inside of {' and '.join(_KINDS[4:])}"
    )


def _leaves(space: Any) -> list[Any]:
    """The spaces inside of others, in their order."""
    kind = kind_of(space)
    if kind not in ("Dict", "Tuple"):
        return [space]
    parts = space.spaces.values() if kind == "Dict" else space.spaces
    return [leaf for part in parts for leaf in _leaves(part)]


def _nested(space: Any, leaves: Any) -> Any:
    """Puts an action together of the next actions of what is inside."""
    kind = kind_of(space)
    if kind == "Dict":
        return {key: _nested(part, leaves) for key, part in space.spaces.items()}
    return tuple(_nested(part, leaves) for part in space.spaces) if kind == "Tuple" else next(leaves)


def _leaf_actions(space: Any, action: Any) -> Any:
    """The actions of what is inside, in their order."""
    kind = kind_of(space)
    if kind not in ("Dict", "Tuple"):
        yield action
        return
    parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
    if len(action) != len(space.spaces):
        raise ValueError(f"it has {len(action)} parts, not {len(space.spaces)}")
    for key, part in parts:
        yield from _leaf_actions(part, action[key])


def _whole(space: Any, row: Any) -> Any:
    """Puts an action together of the next indices."""
    kind = kind_of(space)
    if kind == "Discrete":
        return int(next(row)) + int(getattr(space, "start", 0))
    if kind == "MultiDiscrete":
        shape = np.asarray(space.nvec).shape
        start = getattr(space, "start", 0)
        return (np.array([next(row) for _ in range(math.prod(shape))]).reshape(shape) + start).astype(space.dtype)
    if kind == "MultiBinary":
        shape = tuple(np.atleast_1d(space.shape).tolist())
        return np.array([next(row) for _ in range(math.prod(shape))], np.int8).reshape(shape)
    if kind == "Dict":
        return {key: _whole(part, row) for key, part in space.spaces.items()}
    return tuple(_whole(part, row) for part in space.spaces)


def _indices(space: Any, action: Any) -> Any:
    kind = kind_of(space)
    if kind == "Discrete":
        yield int(action) - int(getattr(space, "start", 0))
    elif kind in ("Dict", "Tuple"):
        parts = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
        for key, part in parts:
            yield from _indices(part, action[key])
    else:
        start = getattr(space, "start", 0) if kind == "MultiDiscrete" else 0
        yield from (np.asarray(action) - start).reshape(-1).tolist()


@dataclass(frozen=True)
class Box:
    """Numbers between bounds, where gymnasium is not needed: what built-in environments have."""

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = np.float32


@dataclass(frozen=True)
class Discrete:
    """One of so many."""

    n: int


@dataclass(frozen=True)
class MultiDiscrete:
    """One of so many, several times."""

    nvec: Any
    dtype: Any = np.int64


def as_gymnasium(space: Box | Discrete | MultiDiscrete) -> Any:
    """The same as a space of gymnasium, if that is installed."""
    try:
        from gymnasium import spaces
    except ImportError:
        return space
    if isinstance(space, Box):
        return spaces.Box(space.low, space.high, space.shape, space.dtype)
    return spaces.Discrete(space.n) if isinstance(space, Discrete) else spaces.MultiDiscrete(space.nvec)


def seen_space(observed: Observed) -> Box:
    """The space of what a built-in environment shows."""
    bounds = np.full(observed.shape, np.inf, np.float32)
    return Box(-bounds, bounds, observed.shape)


def acted_space(acted: Acted) -> Box | Discrete | MultiDiscrete:
    """The space of what a built-in environment takes."""
    if acted.kind == "box":
        return Box(np.asarray(acted.low, np.float32), np.asarray(acted.high, np.float32), (acted.size,))
    return Discrete(acted.sizes[0]) if acted.size == 1 else MultiDiscrete(np.asarray(acted.sizes))
