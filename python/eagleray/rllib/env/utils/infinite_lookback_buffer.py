"""One column of an episode: what belongs to it, and before that what may be looked back at."""

from __future__ import annotations

from typing import Any


class InfiniteLookbackBuffer:
    """A list, or arrays after `finalize`, of which the first `lookback` items are of before.

    Its length, and places in it, leave those out. A negative place counts from the end.

    Args:
        data: all items, those to look back at first.
        lookback: how many those are.
        space: of a single item; it says what `fill` looks like.
    """

    def __init__(self, data: Any = None, lookback: int = 0, space: Any = None) -> None:
        self.data: Any = data if data is not None else []
        self.finalized = not isinstance(self.data, list)
        self.lookback = min(lookback, self._whole())
        self.space = space

    def _whole(self) -> int:
        data = self.data
        while isinstance(data, dict | tuple):
            data = next(iter(data.values())) if isinstance(data, dict) else data[0]
        return len(data)

    def __len__(self) -> int:
        return max(self._whole() - self.lookback, 0)

    def append(self, item: Any) -> None:
        """Adds one."""
        self.extend([item])

    def extend(self, items: list[Any]) -> None:
        """Adds some."""
        if self.finalized:
            self.data = _map(lambda old, new: _concatenate(old, new), self.data, stack(items))
        else:
            self.data.extend(items)

    def pop(self, index: int = -1) -> Any:
        """Takes one out."""
        if self.finalized:
            raise RuntimeError("an episode of arrays is only added to")
        return self.data.pop(index if index < 0 else index + self.lookback)

    def finalize(self) -> None:
        """Makes arrays of its items."""
        if not self.finalized:
            self.data, self.finalized = stack(self.data), True

    def get(
        self,
        indices: Any = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """All items, one by its place, or several.

        Args:
            indices: a place, a list of places, or a slice.
            neg_index_as_lookback: whether -1 is the last item of before, and not the last of all.
            fill: stands where there is no item.
            one_hot_discrete: whether items of a Discrete space are given as vectors.
        """
        if indices is None:
            found = self._cut(slice(self.lookback, None))
        elif isinstance(indices, slice):
            found = self._sliced(indices, neg_index_as_lookback, fill)
        elif isinstance(indices, list | tuple):
            found = [self._one(index, neg_index_as_lookback, fill) for index in indices]
            found = stack(found) if self.finalized else found
        else:
            found = self._one(indices, neg_index_as_lookback, fill)
        return self._one_hot(found) if one_hot_discrete else found

    def __getitem__(self, index: Any) -> Any:
        return self.get(index)

    def set(self, new_data: Any, at_indices: Any = None, *, neg_index_as_lookback: bool = False) -> None:
        """Puts other items in the place of some, or of all."""
        whole = self._whole()
        if at_indices is None:
            places = list(range(self.lookback, whole))
        elif isinstance(at_indices, slice):
            places = [self.lookback + at for at in range(*at_indices.indices(len(self)))]
        else:
            several = at_indices if isinstance(at_indices, list | tuple) else [at_indices]
            places = [self._place(index, neg_index_as_lookback) for index in several]
            new_data = new_data if isinstance(at_indices, list | tuple) else [new_data]
        if len(places) != len(new_data):
            raise IndexError(f"{len(new_data)} items were given for {len(places)} places")
        for number, place in enumerate(places):
            if not 0 <= place < whole:
                raise IndexError(f"there is no item at {place - self.lookback}")
            if self.finalized:
                _assign(self.data, place, new_data[number])
            else:
                self.data[place] = new_data[number]

    def __eq__(self, other: object) -> bool:
        import numpy as np

        mine = self.get()
        theirs = other.get() if isinstance(other, InfiniteLookbackBuffer) else other
        try:
            return bool(np.array_equal(np.asarray(mine), np.asarray(theirs)))
        except ValueError:
            return bool(mine == theirs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"InfiniteLookbackBuffer({self.get()!r}, lookback={self.lookback})"

    def _place(self, index: int, is_lookback: bool) -> int:  # noqa: FBT001
        if index >= 0 or is_lookback:
            return self.lookback + int(index)
        return self._whole() + int(index)

    def _one(self, index: int, is_lookback: bool, fill: Any) -> Any:  # noqa: FBT001
        place = self._place(index, is_lookback)
        if 0 <= place < self._whole():
            return self._cut(place)
        if fill is None:
            raise IndexError(
                f"there is no item at {index} in an episode of {len(self)}, with {self.lookback} before it"
            )
        return self._filled(fill)

    def _sliced(self, part: slice, is_lookback: bool, fill: Any) -> Any:  # noqa: FBT001
        whole = self._whole()
        start = self.lookback if part.start is None else self._place(part.start, is_lookback)
        stop = whole if part.stop is None else self._place(part.stop, is_lookback)
        step = part.step or 1
        if fill is None:
            return self._cut(slice(max(start, 0), min(max(stop, 0), whole), step))
        found = [self._cut(at) if 0 <= at < whole else self._filled(fill) for at in range(start, stop, step)]
        return stack(found) if self.finalized else found

    def _filled(self, fill: Any) -> Any:
        if self.space is None:
            return fill
        import numpy as np

        return np.full(getattr(self.space, "shape", ()), fill, getattr(self.space, "dtype", None))

    def _one_hot(self, found: Any) -> Any:
        count = getattr(self.space, "n", None)
        if count is None:
            return found
        import numpy as np

        return np.eye(int(count), dtype=np.float32)[np.asarray(found, dtype=int) - int(getattr(self.space, "start", 0))]

    def _cut(self, where: Any) -> Any:
        return _map(lambda column: column[where], self.data) if self.finalized else self.data[where]


def stack(items: list[Any]) -> Any:
    """Items as arrays; of dictionaries and tuples, entry by entry."""
    import numpy as np

    if items and isinstance(items[0], dict):
        return {key: stack([item[key] for item in items]) for key in items[0]}
    if items and isinstance(items[0], tuple):
        return tuple(stack([item[at] for item in items]) for at in range(len(items[0])))
    return np.array(items)


def _concatenate(old: Any, new: Any) -> Any:
    import numpy as np

    return np.concatenate([old, np.asarray(new, dtype=old.dtype if len(old) else None)])


def _map(function: Any, first: Any, *rest: Any) -> Any:
    if isinstance(first, dict):
        return {key: _map(function, first[key], *(other[key] for other in rest)) for key in first}
    if isinstance(first, tuple):
        return tuple(_map(function, first[at], *(other[at] for other in rest)) for at in range(len(first)))
    return function(first, *rest)


def _assign(data: Any, place: int, item: Any) -> None:
    if isinstance(data, dict | tuple):
        for key in data if isinstance(data, dict) else range(len(data)):
            _assign(data[key], place, item[key])
    else:
        data[place] = item
