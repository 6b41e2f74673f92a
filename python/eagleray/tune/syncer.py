"""Where older programs find `SyncConfig`."""

from eagleray.tune._configs import SyncConfig

__all__ = ["SyncConfig"]
