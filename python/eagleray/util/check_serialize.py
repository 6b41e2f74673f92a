"""Says which part of an object cannot be sent to a task."""

from __future__ import annotations

from eagleray._errors.serialization_trace import FailureTuple, inspect_serializability

__all__ = ["FailureTuple", "inspect_serializability"]
