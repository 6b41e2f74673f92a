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
_HANDLER: Any = None


def guard(handler: Any) -> None:
    """Hold SIGTERM back while this process forks; in the child it ends the process, unless the program has another handler than this."""
    global _IS_GUARDED, _HANDLER
    _HANDLER = handler
    if not _IS_GUARDED:
        _IS_GUARDED = True
        os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_begin)


def _hold() -> None:
    _HELD.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _begin() -> None:
    # A handler in Python would run late where the child is about to wait for something.
    if _HANDLER is not None and signal.getsignal(signal.SIGTERM) is _HANDLER:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release()


def _release() -> None:
    mask: Any = _HELD.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
