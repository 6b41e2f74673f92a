"""Children that a program forks: a SIGTERM that reaches one before it is ready is not lost.

CPython forgets, in a forked child, the signals that its handlers had noted; a pool of multiprocessing that is ended at
once would wait for such a child for ever.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

_HELD = threading.local()
_IS_GUARDED = False


def guard() -> None:
    """Hold SIGTERM back while this process forks, in the parent and in the child."""
    global _IS_GUARDED
    if not _IS_GUARDED:
        _IS_GUARDED = True
        os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)


def _hold() -> None:
    _HELD.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    mask: Any = _HELD.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
