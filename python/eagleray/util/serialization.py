"""Functions of the user's own that write and read the objects of a class."""

from __future__ import annotations

from eagleray._values.pickling import deregister_serializer, register_serializer

__all__ = ["deregister_serializer", "register_serializer"]
