"""Experiments and their trials."""

from eagleray.tune.experiment.experiment import Experiment
from eagleray.tune.experiment.trial import Trial

__all__ = ["Experiment", "Trial"]
