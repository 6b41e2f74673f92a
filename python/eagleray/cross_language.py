"""Functions and classes of other languages, which cannot be called here."""

from __future__ import annotations

from eagleray._alias.elsewhere import cpp_function, java_actor_class, java_function

__all__ = ["cpp_function", "java_actor_class", "java_function"]
