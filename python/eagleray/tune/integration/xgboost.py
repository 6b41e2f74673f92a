"""XGBoost's rounds as results of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.integration._reporting import BoosterReporter, Metrics, library

if TYPE_CHECKING:
    from collections.abc import Callable

_xgboost = library("tune.integration.xgboost", "xgboost", install="xgboost")


class TuneReportCheckpointCallback(BoosterReporter, _xgboost.callback.TrainingCallback):  # type: ignore[misc, name-defined]
    """Reports the metrics of every round, as `"<data>-<metric>"`, and the model as a checkpoint.

    Args:
        metrics: which of them; a dict names them anew: `{"loss": "eval-logloss"}`.
        filename: of the model within a checkpoint.
        frequency: a checkpoint after so many rounds; 0 for none on the way.
        checkpoint_at_end: whether the trained model is one.
        results_postprocessing_fn: makes of all metrics those that are chosen from.
    """

    CHECKPOINT_NAME = "model.ubj"

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,  # noqa: FBT001, FBT002
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        BoosterReporter.__init__(self, metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)
        _xgboost.callback.TrainingCallback.__init__(self)
        self._last: dict[str, Any] = {}

    @classmethod
    def get_model(cls, checkpoint: Any, filename: str = CHECKPOINT_NAME) -> Any:
        """The booster that a checkpoint has."""
        with checkpoint.as_directory() as folder:
            booster = _xgboost.Booster()
            booster.load_model(str(Path(folder) / filename))
            return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: dict[str, dict[str, list[Any]]]) -> bool:
        """XGBoost has grown its trees of one round."""
        found = {f"{data}-{name}": seen[-1] for data, log in evals_log.items() for name, seen in log.items()}
        self._last = self.told(found)
        self.report(self._last, model, saves=self.is_due(epoch))
        return False

    def after_training(self, model: Any) -> Any:
        """XGBoost has finished."""
        if self._at_end and not self._is_saved:
            self.report(self._last, model, saves=True)
        return model


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics alone."""

    def __init__(
        self,
        metrics: Metrics = None,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)


__all__ = ["TuneReportCallback", "TuneReportCheckpointCallback"]
