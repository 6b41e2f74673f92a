"""What came out of an experiment, asked by metric: `tune.run` returns it, and `ResultGrid` asks it."""

from __future__ import annotations

import logging
import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.analysis._folder import experiment_folder, trials_of
from eagleray.tune.analysis._history import History, flatten, is_number, mean, pandas
from eagleray.tune.metrics import look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from eagleray.tune._checkpoint import Checkpoint
    from eagleray.tune.experiment.trial import Trial

logger = logging.getLogger(__name__)

_LAST_N_AVG = re.compile(r"last-([1-9]\d*)-avg")


class ExperimentAnalysis:
    """The trials of an experiment and what they reported.

    It is made from an experiment's folder, or from trials that are at hand. `history` gives the results of a trial and
    `checkpoints` what it kept, with what was reported with each; without them they are read from the trial's folder when they
    are first asked for.
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | Path | None = None,
        trials: Sequence[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
        *,
        history: Callable[[Trial], list[dict[str, Any]]] | None = None,
        checkpoints: Callable[[Trial], list[tuple[Checkpoint, dict[str, Any]]]] | None = None,
        stats: dict[str, Any] | None = None,
        runner_data: dict[str, Any] | None = None,
        storage_filesystem: object = None,
    ) -> None:
        del storage_filesystem  # there is only this machine's own
        _check_mode(default_mode)
        if experiment_checkpoint_path is None and trials is None:
            raise ValueError("An analysis is made of an experiment's folder or of trials; neither is given.")
        if trials is None and experiment_checkpoint_path is not None:
            folder = experiment_folder(experiment_checkpoint_path)
            trials = trials_of(folder)
            if not trials:
                raise ValueError(f"No trial found in {folder}.")
            self._path: Path | None = folder
        else:
            self._path = None if experiment_checkpoint_path is None else Path(experiment_checkpoint_path)
        self.trials: list[Trial] = list(trials or ())
        # A mode alone means the metric that a bare value is reported as.
        self.default_metric = "_metric" if default_mode and not default_metric else default_metric
        self.default_mode = default_mode
        self._history_of = history
        self._checkpoints_of = checkpoints
        self._stats = stats
        self._runner_data = runner_data
        self._file_type: str | None = None
        self._frames: _ByTrial | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r}, {len(self.trials)} trials)"

    @property
    def experiment_path(self) -> str | None:
        """The folder of the experiment."""
        return None if self._path is None else str(self._path)

    # Results, one or all of each trial.

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by the trial's id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> pd.DataFrame:
        """The last result of each trial, one row each, indexed by the trial's id."""
        return self._frame_of_last(self.trials)

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pd.DataFrame:
        """Give one row for each trial that reported: its last result, or with `metric` and `mode` its best one.

        Parameters are columns `config/a`, nested ones `config/a/b`; `logdir` is the trial's folder.
        """
        if mode and mode not in ("min", "max"):
            raise ValueError("If set, `mode` has to be one of [min, max]")
        if mode and not metric:
            raise ValueError(
                "If a `mode` is passed to `ExperimentAnalysis.dataframe(), you'll also have to pass a `metric`!"
            )
        frames = pandas("a data frame of trials")
        rows = []
        for trial in self.trials:
            row = self._row(trial, metric, mode)
            if row is not None:
                rows.append({**flatten(row), **flatten(trial.config, "config/"), "logdir": trial.local_path})
        return frames.DataFrame(rows)

    @property
    def trial_dataframes(self) -> dict[str, pd.DataFrame]:
        """All results of each trial, by the trial's id; its folder is taken for a key too."""
        if self._frames is None:
            self._frames = self.fetch_trial_dataframes()
        return self._frames

    def fetch_trial_dataframes(self) -> _ByTrial:
        """Read the results of all trials again."""
        frames = _ByTrial(self.trials)
        for trial in self.trials:
            frames[trial.trial_id] = self._history(trial).frame(self._file_type)
        self._frames = frames
        return frames

    def set_filetype(self, file_type: str | None = None) -> bool:
        """Say which file of a trial to read: "json", "csv", or None for whichever is there."""
        if file_type not in (None, "json", "csv"):
            raise ValueError("`file_type` must be None, 'json', or 'csv'")
        self._file_type = file_type
        self._frames = None
        return True

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:  # noqa: FBT001, FBT002 - as Ray has it
        """Give the configuration of each trial by its id; flat and as `config/a/b` with `prefix`."""
        return {trial.trial_id: flatten(trial.config, "config/") if prefix else trial.config for trial in self.trials}

    # The best trial, and what belongs to it.

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,  # noqa: FBT001, FBT002 - as Ray has it
    ) -> Trial | None:
        """Give the trial with the best value of a metric; None if no trial has one.

        `scope` says which value of a trial counts: the "last", the mean of "all" as "avg" or of the last n as
        "last-n-avg", or the best of "all".
        """
        if len(self.trials) == 1:
            return self.trials[0]
        metric, mode = self._metric(metric), self._mode(mode)
        if scope not in ("all", "last", "avg") and not _LAST_N_AVG.fullmatch(scope):
            raise ValueError(
                f"ExperimentAnalysis: attempting to get best trial for metric {metric} for scope {scope} not in "
                '["all", "last", "avg", "last-5-avg", "last-10-avg"]. '
                "If you didn't pass a `metric` parameter to `tune.run()`, "
                "you have to pass one when fetching the best trial."
            )
        best: tuple[float, Trial] | None = None
        for trial in self.trials:
            score = self._score(trial, metric, mode, scope)
            if score is None or (filter_nan_and_inf and not math.isfinite(score)):
                continue
            if best is None or is_better(score, best[0], mode):
                best = (score, trial)
        if best is None:
            logger.warning("Could not find best trial. Did you pass the correct `metric` parameter?")
            return None
        return best[1]

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any] | None:
        """Give the configuration of the best trial."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> str | None:
        """Give the folder of the best trial."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.local_path

    def get_best_checkpoint(
        self, trial: Trial | str, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """Give the checkpoint of a trial that came with the best value of a metric; None if there is none."""
        metric, mode = self._metric(metric), self._mode(mode)
        best: tuple[float, Checkpoint] | None = None
        for checkpoint, row in self._history(self._trial(trial)).checkpoints():
            value = look_up(row, metric)
            if not is_number(value) or math.isnan(value):
                continue
            if best is None or is_better(value, best[0], mode):
                best = (value, checkpoint)
        if best is None:
            logger.error("No checkpoint of %s came with a value of %s.", trial, metric)
            return None
        return best[1]

    def get_last_checkpoint(
        self, trial: Trial | str | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> Checkpoint | None:
        """Give the checkpoint of a trial with the largest `metric`; by default the last one of the best trial by that metric."""
        chosen = self.get_best_trial(metric, mode) if trial is None else self._trial(trial)
        return None if chosen is None else self.get_best_checkpoint(chosen, metric, mode)

    def get_trial_checkpoints_paths(self, trial: Trial | str, metric: str | None = None) -> list[tuple[str, Any]]:
        """Give the paths of a trial's checkpoints, each with the value of a metric (by default the iteration)."""
        metric = metric or self.default_metric or "training_iteration"
        return [
            (checkpoint.path, look_up(row, metric))
            for checkpoint, row in self._history(self._trial(trial)).checkpoints()
        ]

    @property
    def best_trial(self) -> Trial | None:
        """The best trial, by the experiment's own metric."""
        self._need_defaults("best_trial", "get_best_trial(metric, mode)")
        return self.get_best_trial()

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of the best trial, by the experiment's own metric."""
        self._need_defaults("best_config", "get_best_config(metric, mode)")
        return self.get_best_config()

    @property
    def best_logdir(self) -> str | None:
        """The folder of the best trial, by the experiment's own metric."""
        self._need_defaults("best_logdir", "get_best_logdir(metric, mode)")
        return self.get_best_logdir()

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best checkpoint of the best trial, by the experiment's own metric."""
        self._need_defaults("best_checkpoint", "get_best_checkpoint(trial, metric, mode)")
        return self.get_best_checkpoint(self._best())

    @property
    def best_dataframe(self) -> pd.DataFrame:
        """All results of the best trial, by the experiment's own metric."""
        self._need_defaults("best_result", "get_best_trial(metric, mode)")
        return self.trial_dataframes[self._best().trial_id]

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial, by the experiment's own metric."""
        self._need_defaults("best_result", "get_best_trial(metric, mode)")
        return self._best().last_result

    @property
    def best_result_df(self) -> pd.DataFrame:
        """The last result of the best trial as one row, indexed by the trial's id."""
        self._need_defaults("best_result", "get_best_trial(metric, mode)")
        return self._frame_of_last([self._best()])

    # The experiment itself.

    def stats(self) -> dict[str, Any]:
        """Give when the experiment began and when its last result came, in seconds since 1970."""
        if self._stats is not None:
            return dict(self._stats)
        begun = [trial.start_time for trial in self.trials if trial.start_time is not None]
        ends = [stamp for trial in self.trials if is_number(stamp := trial.last_result.get("timestamp"))]
        if not begun:
            for trial in self.trials:
                stamp, spent = trial.last_result.get("timestamp"), trial.last_result.get("time_total_s")
                if is_number(stamp) and is_number(spent):
                    begun.append(stamp - spent)
        return {"start_time": min(begun, default=None), "timestamp": max(ends, default=None)}

    def runner_data(self) -> dict[str, Any]:
        """Give what is known of the run: its folder, and whatever the engine adds."""
        return {"_local_checkpoint_dir": self.experiment_path, **(self._runner_data or {})}

    # What the questions above have in common.

    def _history(self, trial: Trial) -> History:
        results = None if self._history_of is None else partial(self._history_of, trial)
        kept = None if self._checkpoints_of is None else partial(self._checkpoints_of, trial)
        return History(trial.path, results, kept)

    def _rows(self, trial: Trial) -> list[dict[str, Any]]:
        return self._history(trial).rows(self._file_type) or ([trial.last_result] if trial.last_result else [])

    def _row(self, trial: Trial, metric: str | None, mode: str | None) -> dict[str, Any] | None:
        if metric is None or mode is None:
            # At hand: no file needs to be read.
            last = [trial.last_result] if trial.last_result else self._rows(trial)
            return last[-1] if last else None
        rows = self._rows(trial)
        best: tuple[float, dict[str, Any]] | None = None
        for row in rows:
            value = look_up(row, metric)
            if not is_number(value) or math.isnan(value):
                continue
            if best is None or is_better(value, best[0], mode):
                best = (value, row)
        return None if best is None else best[1]

    def _score(self, trial: Trial, metric: str, mode: str, scope: str) -> float | None:
        summary = trial.metric_analysis.get(metric)
        if summary is None:
            return None
        known = summary.get(mode if scope == "all" else scope)
        if known is not None:
            return known
        # The engine need not keep every mean at hand.
        counted = _LAST_N_AVG.fullmatch(scope)
        values = [float(value) for row in self._rows(trial) if is_number(value := look_up(row, metric))]
        if not values:
            return None
        return mean(values[-int(counted[1]) :] if counted else values)

    def _trial(self, trial: Trial | str) -> Trial:
        if not isinstance(trial, str):
            return trial
        for one in self.trials:
            if trial in (one.trial_id, one.local_path) or trial.rstrip("/") == one.local_path:
                return one
        raise ValueError(f"There is no trial {trial!r} in this experiment.")

    def _best(self) -> Trial:
        best = self.get_best_trial()
        if best is None:
            raise ValueError(
                "No best trial found. Please check if you specified the correct default metric "
                f"({self.default_metric}) and mode ({self.default_mode})."
            )
        return best

    def _metric(self, metric: str | None) -> str:
        if metric or self.default_metric:
            return metric or str(self.default_metric)
        raise ValueError(
            "No `metric` has been passed and `default_metric` has not been set. Please specify the `metric` parameter."
        )

    def _mode(self, mode: str | None) -> str:
        if mode:
            _check_mode(mode)
            return mode
        if self.default_mode:
            return self.default_mode
        raise ValueError(
            "No `mode` has been passed and `default_mode` has not been set. Please specify the `mode` parameter."
        )

    def _need_defaults(self, name: str, method: str) -> None:
        if not self.default_metric or not self.default_mode:
            raise ValueError(
                f"To fetch the `{name}`, pass a `metric` and `mode` parameter to `tune.run()`. "
                f"Alternatively, use the `{method}` method to set the metric and mode explicitly."
            )

    def _frame_of_last(self, trials: Sequence[Trial]) -> pd.DataFrame:
        rows = [{**flatten(trial.last_result), "trial_id": trial.trial_id} for trial in trials]
        return (
            pandas("a data frame of results")
            .DataFrame(rows, columns=None if rows else ["trial_id"])
            .set_index("trial_id")
        )


#: The name that programs of Ray 0.8 to 1.x know.
Analysis = ExperimentAnalysis


class _ByTrial(dict[str, Any]):
    """Data frames by a trial's id. A trial's folder, the key of older programs, finds the same."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        super().__init__()
        self._ids = {trial.local_path: trial.trial_id for trial in trials}

    def __missing__(self, key: str) -> Any:
        trial_id = self._ids.get(str(key).rstrip("/"))
        if trial_id is None:
            raise KeyError(key)
        return self[trial_id]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or str(key).rstrip("/") in self._ids

    def get(self, key: str, default: Any = None) -> Any:
        """Give the frame of a trial, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default


def is_better(value: float, other: float, mode: str) -> bool:
    """Whether a value beats another, which is kept where they are equal. Any number beats one that is none."""
    if math.isnan(other):
        return not math.isnan(value)
    return value > other if mode == "max" else value < other


def _check_mode(mode: str | None) -> None:
    if mode is not None and mode not in ("min", "max"):
        raise ValueError("If set, `mode` has to be one of [min, max]")
