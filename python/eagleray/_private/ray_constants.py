"""Numbers that programs compare with."""

from __future__ import annotations

from eagleray.remote_function import _LARGE as FUNCTION_SIZE_WARN_THRESHOLD
from eagleray.remote_function import _TOO_LARGE as FUNCTION_SIZE_ERROR_THRESHOLD

__all__ = ["FUNCTION_SIZE_ERROR_THRESHOLD", "FUNCTION_SIZE_WARN_THRESHOLD", "ID_SIZE", "RESOURCE_CONSTRAINT_PREFIX"]

ID_SIZE = 28
#: Before the name of an accelerator's kind, in the name of its resource.
RESOURCE_CONSTRAINT_PREFIX = "accelerator_type:"
