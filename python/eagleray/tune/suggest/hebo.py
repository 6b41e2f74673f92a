"""The older place of `eagleray.tune.search.hebo`."""

from eagleray.tune.search.hebo import HEBOSearch

__all__ = ["HEBOSearch"]
