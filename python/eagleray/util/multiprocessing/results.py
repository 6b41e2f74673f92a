"""What a pool's calls give back: a result that comes later, or an iterator over results."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import eagleray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Callback = Callable[[Any], Any] | None


class Failed:
    """Stands for a value: the function raised this instead."""

    def __init__(self, error: BaseException) -> None:
        """Keep the error."""
        self.error = error


def values_of(ref: Any) -> list[Any]:
    """Give what a chunk of calls returned, a `Failed` for each that raised; if the worker died, one for all of them."""
    try:
        return list(eagleray.get(ref))
    except eagleray.exceptions.RayError as error:
        return [Failed(error)]


class AsyncResult:
    """The result of `apply_async`, `map_async` or `starmap_async`."""

    def __init__(
        self, refs: list[Any], *, is_single: bool, callback: Callback = None, error_callback: Callback = None
    ) -> None:
        """Take the chunks that make up the result."""
        self._refs = refs
        self._is_single = is_single
        self._told: threading.Event | None = None
        if callback is not None or error_callback is not None:
            self._told = threading.Event()
            threading.Thread(target=self._tell, args=(callback, error_callback), daemon=True).start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is there, and callbacks have run; at most this long."""
        if self._told is not None:
            self._told.wait(timeout)
        elif self._refs:
            eagleray.wait(self._refs, num_returns=len(self._refs), timeout=timeout)

    def ready(self) -> bool:
        """Tell whether the result is there."""
        if self._told is not None:
            return self._told.is_set()
        return not self._refs or not eagleray.wait(self._refs, num_returns=len(self._refs), timeout=0)[1]

    def successful(self) -> bool:
        """Tell whether no call raised; ValueError while that is open."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return not any(isinstance(value, Failed) for value in self._values())

    def get(self, timeout: float | None = None) -> Any:
        """Give the value, or raise what the first call that failed raised; TimeoutError if it takes longer."""
        self.wait(timeout)
        if timeout is not None and not self.ready():
            raise multiprocessing.TimeoutError
        return self._outcome()

    def _values(self) -> list[Any]:
        return [value for ref in self._refs for value in values_of(ref)]

    def _outcome(self) -> Any:
        values = self._values()
        for value in values:
            if isinstance(value, Failed):
                raise value.error
        return values[0] if self._is_single else values

    def _tell(self, callback: Callback, error_callback: Callback) -> None:
        assert self._told is not None
        try:
            try:
                outcome = self._outcome()
            except Exception as error:
                if error_callback is not None:
                    error_callback(error)
            else:
                if callback is not None:
                    callback(outcome)
        finally:
            self._told.set()


class Results:
    """The results of `imap` or `imap_unordered`; what a call raised is given as a value in its place."""

    def __init__(self, submitted: Iterator[Any], *, ahead: int, is_ordered: bool) -> None:
        """Take chunks of calls, each submitted as it is taken; so many are under way at once."""
        self._submitted = submitted
        self._is_ordered = is_ordered
        self._ahead = ahead
        self._under_way: deque[Any] = deque(islice(submitted, ahead))
        self._values: deque[Any] = deque()

    def __iter__(self) -> Results:
        """Give itself."""
        return self

    def __next__(self) -> Any:
        """Give the next result."""
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """Give the next result; TimeoutError if it takes longer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._values:
            if not self._under_way:
                raise StopIteration
            asked = [self._under_way[0]] if self._is_ordered else list(self._under_way)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _ = eagleray.wait(asked, timeout=left)
            if not ready:
                raise multiprocessing.TimeoutError
            self._under_way.remove(ready[0])
            self._under_way.extend(islice(self._submitted, self._ahead - len(self._under_way)))
            self._values.extend(values_of(ready[0]))
        value = self._values.popleft()
        return value.error if isinstance(value, Failed) else value
