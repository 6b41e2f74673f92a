"""Where Ray keeps `TuneConfig`."""

from eagleray.tune._configs import TuneConfig

__all__ = ["TuneConfig"]
