"""The older place of `eagleray.tune.search.basic_variant`."""

from eagleray.tune.search.basic_variant import BasicVariantGenerator

__all__ = ["BasicVariantGenerator"]
