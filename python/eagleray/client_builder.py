"""Ray's separate client, which is not needed here: every driver is a full one."""

from __future__ import annotations

from eagleray._alias.elsewhere import ClientBuilder, client

__all__ = ["ClientBuilder", "client"]
