"""Which version this is, and of which Ray it keeps the API."""

from __future__ import annotations

VERSION = "0.1.0"

#: What libraries compare and print where they say `ray`.
RAY_VERSION = "2.60.0"
