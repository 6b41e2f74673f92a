"""How many threads torch uses: as few as the work is worth.

Threads of torch wait for each other by spinning. Where others need the cores too, small products of matrices that are shared among threads take
longer than on one: PPO on CartPole with two layers of 64 made 5,300 steps/s with one thread and, in two tries, 860 and 4,500 with two, on a busy
machine of two cores.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Products of parameters and rows in one step below which one thread does it: some milliseconds.
_WORTH = 1 << 25


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """So many within, then as before: the rest of the program may want more."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def worth(parameters: list[Any], rows: int) -> int:
    """Threads for a step of the optimiser over so many rows. Filters use their parameters many times: those are always worth more."""
    has_filters = any(one.dim() > 2 for one in parameters)
    is_small = sum(one.numel() for one in parameters) * rows < _WORTH
    return 1 if is_small and not has_filters else torch.get_num_threads()
