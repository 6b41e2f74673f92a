"""`multiprocessing.Pool` on actors: the same calls, and workers that last as long as the pool."""

from __future__ import annotations

from multiprocessing import JoinableQueue, TimeoutError

from eagleray.util.multiprocessing.pool import Pool
from eagleray.util.multiprocessing.results import AsyncResult

__all__ = ["AsyncResult", "JoinableQueue", "Pool", "TimeoutError"]
