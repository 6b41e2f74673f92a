"""What came out of an experiment, by trial, by metric and as data frames."""

from eagleray.tune.analysis.experiment_analysis import Analysis, ExperimentAnalysis

__all__ = ["Analysis", "ExperimentAnalysis"]
