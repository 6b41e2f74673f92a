"""The older place of `eagleray.tune.search.repeater`."""

from eagleray.tune.search.repeater import TRIAL_INDEX, Repeater

__all__ = ["TRIAL_INDEX", "Repeater"]
