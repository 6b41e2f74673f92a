"""Ray's separate client, as libraries ask about it: there is none here, so that nobody is connected by one."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["ray"]


class _NoClient:
    """What `ray.util.client.ray` is: asked whether it is connected, it says no."""

    def is_connected(self) -> bool:
        """Tell whether this program talks to a node through the client."""
        return False

    def connect(self, conn_str: str = "auto", *_args: Any, **_options: Any) -> NoReturn:
        """Refuse: a driver joins a node by itself."""
        from eagleray.util.client_connect import connect

        connect(conn_str)

    def disconnect(self) -> None:
        """Do nothing: nothing can be connected."""


ray = _NoClient()
