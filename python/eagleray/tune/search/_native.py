"""The native searchers, as a module of the extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray._native_tune_search import Search
else:
    from eagleray._native import tune as _tune

    Search = _tune.Search

__all__ = ["Search"]
