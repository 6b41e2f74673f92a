"""The older place of `eagleray.tune.search.search_generator`."""

from eagleray.tune.search.search_generator import SearchGenerator

__all__ = ["SearchGenerator"]
