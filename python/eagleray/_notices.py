"""The channel of driver-visible warnings: who wants to know subscribes."""

from __future__ import annotations

from collections import deque
from typing import Any

RECENT: deque[tuple[str, str]] = deque(maxlen=1000)
_SUBSCRIBERS: list[Any] = []


def publish(kind: str, text: str) -> None:
    """Tell all subscribers."""
    RECENT.append((kind, text))
    for subscriber in _SUBSCRIBERS:
        subscriber(kind, text)


def subscribe(subscriber: Any) -> None:
    """Call this for every notice from now on."""
    _SUBSCRIBERS.append(subscriber)


def unsubscribe(subscriber: Any) -> None:
    """Call it no more."""
    if subscriber in _SUBSCRIBERS:
        _SUBSCRIBERS.remove(subscriber)
