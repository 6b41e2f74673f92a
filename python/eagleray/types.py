"""Types for annotations."""

from __future__ import annotations

from eagleray._native import ObjectRef

__all__ = ["ObjectRef"]
