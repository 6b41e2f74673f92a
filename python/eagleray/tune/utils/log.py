"""How much is said."""

from eagleray.tune._console.verbosity import Verbosity

__all__ = ["Verbosity"]
