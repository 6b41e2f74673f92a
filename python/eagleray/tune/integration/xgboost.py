"""XGBoost's rounds as results of a trial."""

from __future__ import annotations

from typing import Any

from eagleray.tune.integration._reporting import BoosterReporter, MetricsAlone, library

_xgboost = library("tune.integration.xgboost", "xgboost", install="xgboost")


class TuneReportCheckpointCallback(BoosterReporter, _xgboost.callback.TrainingCallback):  # type: ignore[misc, name-defined]
    """Reports the metrics of every round, as `"<data>-<metric>"`, and the model as a checkpoint.

    What it is given, see `BoosterReporter`.
    """

    CHECKPOINT_NAME = "model.ubj"
    #: What the latest round had; None where a library that grows trees in actors passes rounds on to the trial: nothing can be reported here.
    _last: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: str) -> Any:
        """Reads a booster from a file."""
        booster = _xgboost.Booster()
        booster.load_model(path)
        return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, dict[str, list[Any]]]) -> bool:
        """XGBoost has grown its trees of one round."""
        found = {f"{data}-{name}": seen[-1] for data, log in evals_log.items() for name, seen in log.items()}
        self._last = self.told(found)
        self.report(self._last, model, saves=self.is_due(epoch))
        return False

    def after_training(self, model: Any) -> Any:
        """XGBoost has finished."""
        if self._at_end and not self._is_saved and self._last is not None:
            self.report(self._last, model, saves=True)
        return model


class TuneReportCallback(MetricsAlone, TuneReportCheckpointCallback):
    """Reports metrics alone."""


#: What libraries import beside the others, to make callbacks of their own.
_TuneCheckpointCallback = TuneReportCheckpointCallback

__all__ = ["TuneReportCallback", "TuneReportCheckpointCallback"]
