"""A queue that tasks, actors and drivers share. It lives in an actor that holds no CPU."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

import eagleray

#: Callers that may wait in the queue at once. They are coroutines, so the number costs nothing.
_WAITING_MAX = 1_000_000


class Empty(queue.Empty):
    """There is nothing to get, or not as much as was asked for."""


class Full(queue.Full):
    """There is no room to put it."""


class Queue:
    """A first-in, first-out queue with room for `maxsize` items, or for any number if that is 0.

    It may be passed to tasks and actors; all copies are the same queue. `actor_options` are those of the actor behind it.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        """Start the actor."""
        self.maxsize = maxsize
        options = {"num_cpus": 0, "max_concurrency": _WAITING_MAX, **(actor_options or {})}
        self.actor: Any = eagleray.remote(_QueueActor).options(**options).remote(maxsize)

    def __len__(self) -> int:
        """Give the number of items."""
        return self.size()

    def size(self) -> int:
        """Give the number of items."""
        return int(eagleray.get(self.actor.qsize.remote()))

    def qsize(self) -> int:
        """Give the number of items."""
        return self.size()

    def empty(self) -> bool:
        """Tell whether there is nothing in it."""
        return self.size() == 0

    def full(self) -> bool:
        """Tell whether there is no room left."""
        return bool(eagleray.get(self.actor.full.remote()))

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: FBT001, FBT002 - as Ray has it
        """Add an item; without room, wait for it, at most `timeout` seconds, or raise Full."""
        try:
            eagleray.get(self.actor.put.remote(item, _seconds(timeout, block=block)))
        except Full as error:
            raise _bare(error) from None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - as Ray has it
        """Take the oldest item; if there is none, wait for it, at most `timeout` seconds, or raise Empty."""
        try:
            return eagleray.get(self.actor.get.remote(_seconds(timeout, block=block)))
        except Empty as error:
            raise _bare(error) from None

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ASYNC109, FBT001, FBT002
        """Do what `put` does, in a coroutine."""
        try:
            await self.actor.put.remote(item, _seconds(timeout, block=block))
        except Full as error:
            raise _bare(error) from None

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ASYNC109, FBT001, FBT002
        """Do what `get` does, in a coroutine."""
        try:
            return await self.actor.get.remote(_seconds(timeout, block=block))
        except Empty as error:
            raise _bare(error) from None

    def put_nowait(self, item: Any) -> None:
        """Add an item if there is room now."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """Take the oldest item if there is one now."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items in their order, or none of them: then Full is raised."""
        if not isinstance(items, Iterable):
            raise TypeError("Argument 'items' must be an Iterable")
        try:
            eagleray.get(self.actor.put_nowait_batch.remote(list(items)))
        except Full as error:
            raise _bare(error) from None

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Take this many items, or none: then Empty is raised."""
        if not isinstance(num_items, int):
            raise TypeError("Argument 'num_items' must be an int")
        if num_items < 0:
            raise ValueError("'num_items' must be nonnegative")
        try:
            items: list[Any] = eagleray.get(self.actor.get_nowait_batch.remote(num_items))
        except Empty as error:
            raise _bare(error) from None
        return items

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:  # noqa: FBT001, FBT002 - as Ray has it
        """End the actor: after what it is doing, or at once by `force` or when the grace period is over."""
        if self.actor is None:
            return
        if not force:
            done, _ = eagleray.wait([self.actor.__ray_terminate__.remote()], timeout=grace_period_s)
            force = not done
        if force:
            eagleray.kill(self.actor, no_restart=True)
        self.actor = None


def _seconds(timeout: float | None, *, block: bool) -> float | None:
    """How long the actor shall wait; None: for ever."""
    if not block:
        return 0
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout


def _bare(error: Exception) -> Exception:
    """Give the exception without the story of the actor that raised it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, (Empty, Full)) else error


class _QueueActor:
    """The items, and the coroutines that wait for some or for room.

    Programs call these methods through `Queue.actor` too, so their names are Ray's.
    """

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.queue: asyncio.Queue[Any] = asyncio.Queue(max(0, maxsize))

    def qsize(self) -> int:
        return self.queue.qsize()

    def empty(self) -> bool:
        return self.queue.empty()

    def full(self) -> bool:
        return self.queue.full()

    async def put(self, item: Any, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if timeout == 0:
            self.put_nowait(item)
            return
        try:
            async with asyncio.timeout(timeout):
                await self.queue.put(item)
        except TimeoutError:
            raise Full from None

    async def get(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        if timeout == 0:
            return self.get_nowait()
        try:
            async with asyncio.timeout(timeout):
                return await self.queue.get()
        except TimeoutError:
            raise Empty from None

    def put_nowait(self, item: Any) -> None:
        if self.queue.full():
            raise Full
        self.queue.put_nowait(item)

    def get_nowait(self) -> Any:
        if self.queue.empty():
            raise Empty
        return self.queue.get_nowait()

    def put_nowait_batch(self, items: list[Any]) -> None:
        size = self.queue.qsize()
        if self.maxsize > 0 and size + len(items) > self.maxsize:
            raise Full(f"Cannot add {len(items)} items to queue of size {size} and maxsize {self.maxsize}.")
        for item in items:
            self.queue.put_nowait(item)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        size = self.queue.qsize()
        if num_items > size:
            raise Empty(f"Cannot get {num_items} items from queue of size {size}.")
        return [self.queue.get_nowait() for _ in range(num_items)]
