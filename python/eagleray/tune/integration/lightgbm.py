"""LightGBM's rounds as results of a trial."""

from __future__ import annotations

from typing import Any

from eagleray.tune.integration._reporting import BoosterReporter, MetricsAlone, library

_lightgbm = library("tune.integration.lightgbm", "lightgbm", install="lightgbm")


class TuneReportCheckpointCallback(BoosterReporter):
    """Reports the metrics of every round, as `"<data>-<metric>"`, of `cv` with `-mean` and `-stdv`, and the model as a checkpoint.

    What it is given, see `BoosterReporter`.
    """

    CHECKPOINT_NAME = "model.txt"
    #: Where it stands among the callbacks of a round.
    order = 20

    @classmethod
    def read(cls, path: str) -> Any:
        """Reads a booster from a file."""
        return _lightgbm.Booster(model_file=path)

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


class TuneReportCallback(MetricsAlone, TuneReportCheckpointCallback):
    """Reports metrics alone."""


#: What libraries import beside the others, to make callbacks of their own.
_TuneCheckpointCallback = TuneReportCheckpointCallback

__all__ = ["TuneReportCallback", "TuneReportCheckpointCallback"]
