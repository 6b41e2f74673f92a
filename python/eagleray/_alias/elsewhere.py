"""Names of Ray's that eagleray has no part for: each says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn


def java_function(class_name: str, function_name: str) -> NoReturn:
    """Refuse: functions are Python's here."""
    raise NotImplementedError(
        f"eagleray runs Python functions only; {class_name}.{function_name} of Java cannot be called"
    )


def java_actor_class(class_name: str) -> NoReturn:
    """Refuse: classes are Python's here."""
    raise NotImplementedError(f"eagleray runs Python classes only; {class_name} of Java cannot be made an actor")


def client(address: str | None = None, **_options: Any) -> NoReturn:
    """Refuse: every driver is a full one."""
    raise NotImplementedError(
        f"there is no separate client; a driver joins a node by init(address={address or 'auto'!r})"
    )
