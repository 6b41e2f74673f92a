"""Generators that run elsewhere: reading them from an event loop, and the refs of one that was asked for all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray._native import ObjectRef
from eagleray._values import awaiting

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


class DynamicObjectRefGenerator:
    """The refs of everything that a generator with `num_returns="dynamic"` has yielded."""

    def __init__(self, refs: list[Any]) -> None:
        """Keep the refs."""
        self._refs = refs

    def __iter__(self) -> Iterator[Any]:
        """Go through the refs, in the order of the values."""
        return iter(self._refs)

    def __len__(self) -> int:
        """Tell how many there are."""
        return len(self._refs)


async def next_async(generator: Any) -> Any:
    """Wait for a generator's next ref without holding up the event loop."""
    while True:
        ref, is_known = generator._next_or_wait()
        if ref is None:
            raise StopAsyncIteration
        if is_known:
            return ref
        await awaiting.until_ready(ref)


async def next_within(generator: Any, timeout_s: float | None) -> Any:
    """Give a generator's next ref; after this time, unless it is None or below zero, a nil one."""
    if timeout_s is None or timeout_s < 0:
        return await next_async(generator)
    import asyncio

    try:
        return await asyncio.wait_for(next_async(generator), timeout_s)
    except TimeoutError:
        return ObjectRef.nil()


def again(values: list[Any], error: BaseException | None) -> Generator[Any]:
    """Give what an asynchronous generator gave, and raise what it raised."""
    yield from values
    if error is not None:
        raise error
