"""A pool of actors that share a stream of work: each gets its next call as soon as its last one has ended."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Submission = tuple[Callable[[Any, Any], Any], Any]


class ActorPool:
    """Hands calls to whichever of its actors is free; what finds none free waits here.

    An actor that died leaves the pool with the call that it failed. One whose method raised, or that cannot be reached just
    now, stays. A call with several returns has a list of refs, and its result is the list of their values.

    Programs look at the underscored attributes, so their names and meanings are Ray's.
    """

    def __init__(self, actors: list[Any]) -> None:
        """Take these actors."""
        self._idle_actors: list[Any] = list(actors)
        #: For each call under way, by its ref or the tuple of its refs: its number, and the actor that runs it.
        self._future_to_actor: dict[Any, tuple[int, Any]] = {}
        self._index_to_future: dict[int, Any] = {}
        self._pending_submits: deque[Submission] = deque()
        self._next_task_index = 0
        self._next_return_index = 0

    def map(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Call `fn(actor, value)` for every value, all submitted at once; gives the results in the order of the values.

        Results of earlier submissions that nobody took are dropped.
        """
        self._submit_all(fn, values)
        return self._results(self.get_next)

    def map_unordered(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Do what `map` does, but give the results as they come."""
        self._submit_all(fn, values)
        return self._results(self.get_next_unordered)

    def submit(self, fn: Callable[[Any, Any], Any], value: Any) -> None:
        """Call `fn(actor, value)`, which returns a ref, with the next free actor."""
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        ref = fn(actor, value)
        self._future_to_actor[_key(ref)] = (self._next_task_index, actor)
        self._index_to_future[self._next_task_index] = ref
        self._next_task_index += 1

    def has_next(self) -> bool:
        """Tell whether there is a result to get, now or later."""
        return bool(self._future_to_actor or self._pending_submits)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Give the next result in the order of submission.

        Raises StopIteration if nothing was submitted, TimeoutError if it takes too long; with `ignore_if_timedout` a result that
        takes too long is skipped.
        """
        self._check_next()
        if self._next_return_index >= self._next_task_index or self._next_return_index not in self._index_to_future:
            raise ValueError("It is not allowed to call get_next() after get_next_unordered().")
        ref = self._index_to_future[self._next_return_index]
        is_late = timeout is not None and not eagleray.wait([_first(ref)], timeout=timeout)[0]
        if is_late and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        return self._take(ref, is_late=is_late)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Give whichever result is there first; otherwise as `get_next`."""
        self._check_next()
        calls = {_first(key): key for key in self._future_to_actor}
        ready, _ = eagleray.wait(list(calls), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        number, _ = self._future_to_actor[calls[ready[0] if ready else next(iter(calls))]]
        return self._take(self._index_to_future[number], is_late=not ready)

    def has_free(self) -> bool:
        """Tell whether an actor is free, with nothing waiting for it."""
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> Any:
        """Take an actor that is free out of the pool; None if there is none."""
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an actor, which gets whatever waits."""
        busy = [member for _, member in self._future_to_actor.values()]
        if actor in self._idle_actors or actor in busy:
            raise ValueError("Actor already belongs to current ActorPool")
        self._return(actor)

    def _submit_all(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> None:
        self._forget()
        for value in values:
            self.submit(fn, value)

    def _forget(self) -> None:
        """Let what was submitted earlier run without anybody looking at it; its actors take the next call behind it."""
        self._idle_actors.extend(actor for _, actor in self._future_to_actor.values())
        self._future_to_actor.clear()
        self._index_to_future.clear()
        for at, (fn, value) in enumerate(self._pending_submits if self._idle_actors else ()):
            fn(self._idle_actors[at % len(self._idle_actors)], value)
        self._pending_submits.clear()
        self._next_return_index = self._next_task_index

    def _results(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()

    def _check_next(self) -> None:
        if not self.has_next():
            raise StopIteration("No more results to get")
        if not self._future_to_actor:
            # One error for each call that nobody can run, so that a loop over all results ends.
            self._pending_submits.popleft()
            raise RuntimeError("All actors of the pool have died, and none was left to run this call.")

    def _take(self, ref: Any, *, is_late: bool) -> Any:
        """Take a call's result out of the pool, and free its actor."""
        number, actor = self._future_to_actor.pop(_key(ref))
        del self._index_to_future[number]
        self._next_return_index = max(self._next_return_index, number + 1)
        if is_late:
            self._return(actor)
            raise TimeoutError(f"Timed out waiting for result. The task {ref} has been ignored.")
        try:
            result = eagleray.get(ref)
        except ActorDiedError:
            raise
        except BaseException:
            self._return(actor)
            raise
        self._return(actor)
        return result

    def _return(self, actor: Any) -> None:
        self._idle_actors.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())


def _key(future: Any) -> Any:
    """Give what a call is found by: its ref, or the refs of its several returns."""
    return tuple(future) if isinstance(future, list) else future


def _first(future: Any) -> Any:
    """Give a ref that is ready when the call has ended: all returns of a call are made together."""
    return future[0] if isinstance(future, (list, tuple)) else future
