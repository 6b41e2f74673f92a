"""What `Tuner.fit` returns: the results of all trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.tune.experiment.trial import Trial
from eagleray.tune.result import Result, local_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from eagleray.tune._checkpoint import LocalFileSystem
    from eagleray.tune.analysis import ExperimentAnalysis


class ResultGrid:
    """The results of an experiment, one for each trial, in the order in which the trials were made."""

    def __init__(self, experiment_analysis: ExperimentAnalysis) -> None:
        self._experiment_analysis = experiment_analysis
        self._results = [self._trial_to_result(trial) for trial in experiment_analysis.trials]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, place: int) -> Result:
        return self._results[place]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __repr__(self) -> str:
        inner = ",\n".join(result._repr(indent=2) for result in self._results)
        return f"ResultGrid<[\n{inner}\n]>"

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,  # noqa: FBT001, FBT002 - as Ray has it
    ) -> Result:
        """Give the result of the trial with the best value of a metric. `scope` is as in ExperimentAnalysis.get_best_trial.

        Raises:
            ValueError: If there is more than one trial, and neither the call nor the experiment names metric and mode.
            RuntimeError: If no trial has a value to compare.
        """
        analysis = self._experiment_analysis
        if len(analysis.trials) == 1:
            return self._results[0]
        if not metric and not analysis.default_metric:
            raise ValueError(_missing("metric"))
        if not mode and not analysis.default_mode:
            raise ValueError(_missing("mode"))
        best = analysis.get_best_trial(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            why = (
                ", or all values reported for this metric are NaN. To not ignore NaN values, "
                "you can set the `filter_nan_and_inf` arg to False."
                if filter_nan_and_inf
                else "."
            )
            raise RuntimeError(
                f"No best trial found for the given metric: {metric or analysis.default_metric}. "
                f"This means that no trial has reported this metric{why}"
            )
        return self._results[analysis.trials.index(best)]

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pd.DataFrame:
        """Give one row for each trial that reported: its last result, or the best one by `filter_metric` and `filter_mode`."""
        return self._experiment_analysis.dataframe(metric=filter_metric, mode=filter_mode)

    @property
    def errors(self) -> list[BaseException]:
        """What ended the trials that failed."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials failed."""
        return self._count(Trial.ERROR)

    @property
    def num_terminated(self) -> int:
        """How many trials came to their end."""
        return self._count(Trial.TERMINATED)

    @property
    def experiment_path(self) -> str | None:
        """The folder of the experiment."""
        return self._experiment_analysis.experiment_path

    @property
    def filesystem(self) -> LocalFileSystem:
        """Where that folder lies."""
        return local_files()

    def _count(self, status: str) -> int:
        return sum(1 for trial in self._experiment_analysis.trials if trial.status == status)

    def _trial_to_result(self, trial: Trial) -> Result:
        metrics: dict[str, Any] = {**trial.last_result, "config": trial.config}
        return Result(
            metrics=metrics,
            checkpoint=trial.checkpoint,
            error=trial.error if trial.status == Trial.ERROR else None,
            path=trial.local_path,
            config=trial.config,
            history=self._experiment_analysis._history(trial),
        )


def _missing(what: str) -> str:
    return (
        f"No {what} is provided. Either pass in a `{what}` arg to `get_best_result` "
        f"or specify a {what} in the `TuneConfig` of your `Tuner`."
    )
