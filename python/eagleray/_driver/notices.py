"""The channel of driver-visible warnings: who wants to know subscribes."""

from __future__ import annotations

from collections import deque
from typing import Any

RECENT: deque[tuple[str, str]] = deque(maxlen=1000)
#: Called with kind and text of every notice.
SUBSCRIBERS: list[Any] = []
#: Called with name, pid, whether it is standard error, and lines of all that workers print.
LINE_SUBSCRIBERS: list[Any] = []


def publish(kind: str, text: str) -> None:
    """Tell all subscribers."""
    RECENT.append((kind, text))
    for subscriber in SUBSCRIBERS[:]:
        subscriber(kind, text)


def warn_of_anonymous(name: str, namespace: str) -> None:
    """Tell the user that nobody else will find a detached actor: its namespace is one that was made up for this driver."""
    import re

    if re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", namespace) is None:
        return
    from eagleray import _native

    _native.notice(
        "detached_actor_anonymous_namespace",
        (
            f"Warning: the detached actor {name!r} is in the anonymous namespace {namespace} of this driver. To find it from another "
            f"driver, pass that namespace to get_actor; better, give init() or the actor a namespace."
        )
        if name
        else "Warning: a detached actor without a name was made. Once its handles are gone nobody can find it; give it a name and a namespace.",
    )


def subscribe(subscriber: Any) -> None:
    """Call this for every notice from now on."""
    SUBSCRIBERS.append(subscriber)


def unsubscribe(subscriber: Any) -> None:
    """Call it no more."""
    if subscriber in SUBSCRIBERS:
        SUBSCRIBERS.remove(subscriber)
