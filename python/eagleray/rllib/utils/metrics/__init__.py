"""What is measured: episodes, values that programs log, and results with the names of both eras."""

from eagleray.rllib.utils.metrics.metrics_logger import MetricsLogger

__all__ = ["MetricsLogger"]
