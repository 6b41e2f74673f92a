"""Ray's separate client, which is not needed here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["connect", "disconnect"]


def connect(conn_str: str = "auto", *_args: Any, **_options: Any) -> NoReturn:
    """Refuse: a driver joins a node by itself."""
    raise NotImplementedError(f"there is no separate client; a driver joins a node by init(address={conn_str!r})")


def disconnect() -> None:
    """Do nothing: nothing can be connected."""
