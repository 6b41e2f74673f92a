"""Results as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import eagleray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


def as_completed(
    refs: Sequence[Any],
    chunk_size: int = 10,
    yield_obj_refs: bool = False,  # noqa: FBT001, FBT002 - as Ray has it
    **wait_options: Any,
) -> Iterator[Any]:
    """Give the values of these refs, or with `yield_obj_refs` the refs themselves, in the order in which they are ready.

    Up to `chunk_size` of those that are ready are fetched at once. `wait_options` go to `wait`.
    """
    _check(chunk_size)
    return _completed(list(refs), chunk_size, yield_obj_refs, wait_options)


def _completed(
    waiting: list[Any],
    chunk_size: int,
    yield_obj_refs: bool,  # noqa: FBT001
    wait_options: dict[str, Any],
) -> Iterator[Any]:
    while waiting:
        ready, waiting = _next_chunk(waiting, chunk_size, wait_options)
        yield from ready if yield_obj_refs else eagleray.get(ready)


def map_unordered(
    fn: Callable[[Any], Any],
    items: Iterable[Any],
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,  # noqa: FBT001, FBT002 - as Ray has it
    **wait_options: Any,
) -> Iterator[Any]:
    """Call the remote function for every item, and give the results in the order in which they are ready.

    At most `backpressure_size` calls are under way at once; None: any number. Items are taken only as they are needed.
    """
    _check(chunk_size)
    if backpressure_size is not None and backpressure_size < chunk_size:
        raise ValueError(f"`backpressure_size` must be at least `chunk_size` ({chunk_size}), not {backpressure_size}")
    function: Any = fn if hasattr(fn, "remote") else eagleray.remote(fn)
    return _mapped(function, items, backpressure_size, chunk_size, yield_obj_refs, wait_options)


def _mapped(
    function: Any,
    items: Iterable[Any],
    most: int | None,
    chunk_size: int,
    yield_obj_refs: bool,  # noqa: FBT001
    wait_options: dict[str, Any],
) -> Iterator[Any]:
    waiting: list[Any] = []
    for item in items:
        waiting.append(function.remote(item))
        while most is not None and len(waiting) >= most:
            ready, waiting = _next_chunk(waiting, chunk_size, wait_options)
            yield from ready if yield_obj_refs else eagleray.get(ready)
    yield from _completed(waiting, chunk_size, yield_obj_refs, wait_options)


def _next_chunk(waiting: list[Any], chunk_size: int, wait_options: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Wait for one, and take what else is ready by then."""
    ready, rest = eagleray.wait(waiting, num_returns=1, **wait_options)
    if ready and chunk_size > 1 and rest:
        more, rest = eagleray.wait(rest, num_returns=min(chunk_size - 1, len(rest)), **{**wait_options, "timeout": 0})
        ready += more
    return ready, rest


def _check(chunk_size: int) -> None:
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
