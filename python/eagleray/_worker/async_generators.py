"""Runs generators of an async actor on its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: A generator that never waits lets others run after this many values.
_TURN = 64


async def run(server: Any, call: Any, generator: Any) -> Any:
    """Run a call's generator to its end; returns what the call returns beside the values that went out."""
    async with contextlib.aclosing(_values(generator)) as values:
        if not call.yields:
            return await _first(values, call.returns)
        try:
            await _send_all(server, call, values)
        except Exception as error:
            if call.yields != "dynamic":
                raise
            return call.list(server.worker, error)
    return call.list(server.worker, None) if call.yields == "dynamic" else None


async def _send_all(server: Any, call: Any, values: AsyncIterator[Any]) -> None:
    sent = 0
    async for value in values:
        if not call.send_item(value):
            await server.until_wanted(call)
        sent += 1
        if sent % _TURN == 0:
            await asyncio.sleep(0)


async def _first(values: AsyncIterator[Any], count: int) -> Any:
    """Take as many values as are wanted, and what is raised before."""
    from eagleray._values.generators import again

    taken: list[Any] = []
    if count == 0:
        return None
    try:
        async for value in values:
            taken.append(value)
            if len(taken) == count:
                break
    except Exception as error:
        return again(taken, error)
    return again(taken, None)


async def _values(generator: Any) -> Any:
    if inspect.isasyncgen(generator):
        async with contextlib.aclosing(generator):
            async for value in generator:
                yield value
    else:
        for value in generator:
            yield value
