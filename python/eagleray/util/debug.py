"""Messages that shall appear once."""

from __future__ import annotations

import time

__all__ = ["disable_log_once_globally", "enable_periodic_logging", "log_once", "reset_log_once"]

#: After so long, with `enable_periodic_logging`, a message may appear again.
_AGAIN_SECONDS = 60.0


class _Log:
    """What was said in this process, and when the last of it was."""

    said: set[str]
    is_off = False
    is_periodic = False
    last = 0.0


_LOG = _Log()
_LOG.said = set()


def log_once(key: str) -> bool:
    """Tell whether this is the first time that somebody asks for this key, in this process."""
    if _LOG.is_off:
        return False
    now = time.monotonic()
    if key not in _LOG.said:
        _LOG.said.add(key)
        _LOG.last = now
        return True
    if _LOG.is_periodic and now - _LOG.last > _AGAIN_SECONDS:
        _LOG.said.clear()
        _LOG.last = now
    return False


def disable_log_once_globally() -> None:
    """Make `log_once` say no to everything in this process."""
    _LOG.is_off = True


def enable_periodic_logging() -> None:
    """Let messages appear again after a minute."""
    _LOG.is_periodic = True


def reset_log_once(key: str | None = None) -> None:
    """Forget that this message appeared; without a key: that any did."""
    if key is None:
        _LOG.said.clear()
    else:
        _LOG.said.discard(key)
