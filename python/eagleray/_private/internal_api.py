"""As `eagleray.internal`."""

from __future__ import annotations

from eagleray.internal import free

__all__ = ["free"]
