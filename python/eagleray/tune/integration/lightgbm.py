"""LightGBM's rounds as results of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.integration._reporting import BoosterReporter, Metrics, library

if TYPE_CHECKING:
    from collections.abc import Callable

_lightgbm = library("tune.integration.lightgbm", "lightgbm", install="lightgbm")


class TuneReportCheckpointCallback(BoosterReporter):
    """Reports the metrics of every round, as `"<data>-<metric>"`, of `cv` with `-mean` and `-stdv`, and the model as a checkpoint.

    Args:
        metrics: which of them; a dict names them anew: `{"loss": "eval-binary_logloss"}`.
        filename: of the model within a checkpoint.
        frequency: a checkpoint after so many rounds; 0 for none on the way.
        checkpoint_at_end: whether the trained model is one.
        results_postprocessing_fn: makes of all metrics those that are chosen from.
    """

    CHECKPOINT_NAME = "model.txt"
    #: Where it stands among the callbacks of a round.
    order = 20

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,  # noqa: FBT001, FBT002
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)

    @classmethod
    def get_model(cls, checkpoint: Any, filename: str = CHECKPOINT_NAME) -> Any:
        """The booster that a checkpoint has."""
        with checkpoint.as_directory() as folder:
            return _lightgbm.Booster(model_file=str(Path(folder) / filename))

    def __call__(self, env: Any) -> None:
        """LightGBM has grown its trees of one round."""
        found: dict[str, Any] = {}
        for data, name, value, *rest in env.evaluation_result_list or []:
            if len(rest) > 1:
                found[f"{data}-{name}-mean"], found[f"{data}-{name}-stdv"] = value, rest[1]
            else:
                found[f"{data}-{name}"] = value
        is_last = env.iteration == env.end_iteration - 1
        saves = self.is_due(env.iteration) or (self._at_end and is_last)
        self.report(self.told(found), env.model, saves=saves)


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics alone."""

    def __init__(
        self,
        metrics: Metrics = None,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)


__all__ = ["TuneReportCallback", "TuneReportCheckpointCallback"]
