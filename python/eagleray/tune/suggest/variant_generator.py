"""The older place of `eagleray.tune.search.variant_generator`."""

from eagleray.tune.search.variant_generator import RecursiveDependencyError, format_vars, generate_variants, grid_search

__all__ = ["RecursiveDependencyError", "format_vars", "generate_variants", "grid_search"]
