"""Where older programs find `Trial`."""

from eagleray.tune.experiment.trial import Trial

__all__ = ["Trial"]
