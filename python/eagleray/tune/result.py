"""What one trial came to, and the names under which results carry what Tune adds to them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.analysis._history import CHECKPOINT_DIR_NAME, History, is_number, read_error
from eagleray.tune.metrics import look_up

if TYPE_CHECKING:
    import pandas as pd

    from eagleray.tune._checkpoint import Checkpoint, LocalFileSystem

#: The index of a result within its trial, from 1.
TRAINING_ITERATION = "training_iteration"
TIME_TOTAL_S = "time_total_s"
TIME_THIS_ITER_S = "time_this_iter_s"
TIMESTEPS_TOTAL = "timesteps_total"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
EPISODES_TOTAL = "episodes_total"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_ACCURACY = "mean_accuracy"
MEAN_LOSS = "mean_loss"
NEG_MEAN_LOSS = "neg_mean_loss"
TIMESTAMP = "timestamp"
DONE = "done"
SHOULD_CHECKPOINT = "should_checkpoint"
TRIAL_ID = "trial_id"
EXPERIMENT_TAG = "experiment_tag"
PID = "pid"
HOSTNAME = "hostname"
NODE_IP = "node_ip"
#: The name of a metric that was reported as a bare value.
DEFAULT_METRIC = "_metric"

EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = "result.json"
EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"

#: What is shown of a result if nobody says what.
DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)

#: What is added to each result.
AUTO_RESULT_KEYS = (
    TRAINING_ITERATION,
    TIME_TOTAL_S,
    EPISODES_TOTAL,
    TIMESTEPS_TOTAL,
    NODE_IP,
    HOSTNAME,
    PID,
    TIME_THIS_ITER_S,
    TIMESTAMP,
    "date",
    "time_since_restore",
    "timesteps_since_restore",
    "iterations_since_restore",
    "config",
)

#: What a reader of results does not care for, beside AUTO_RESULT_KEYS.
BOOKKEEPING_KEYS = frozenset(
    (
        *AUTO_RESULT_KEYS,
        DONE,
        SHOULD_CHECKPOINT,
        TRIAL_ID,
        EXPERIMENT_TAG,
        EPISODES_THIS_ITER,
        TIMESTEPS_THIS_ITER,
        CHECKPOINT_DIR_NAME,
        "experiment_id",
        "trial_name",
        "warmup_time",
    )
)


class Result:
    """What one trial came to.

    `metrics` is the last result that it reported, `checkpoint` the last checkpoint, `error` what ended it if it failed,
    `path` its folder, `best_checkpoints` those that were kept, each with the metrics reported with it.
    """

    def __init__(
        self,
        metrics: dict[str, Any] | None = None,
        checkpoint: Checkpoint | None = None,
        error: BaseException | None = None,
        path: str | None = None,
        metrics_dataframe: pd.DataFrame | None = None,
        best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] | None = None,
        *,
        config: dict[str, Any] | None = None,
        history: History | None = None,
    ) -> None:
        self.metrics = metrics
        self.checkpoint = checkpoint
        self.error = error
        self.path = path
        self._config = config
        self._history = history
        self._metrics_dataframe = metrics_dataframe
        self._best_checkpoints = best_checkpoints

    @property
    def config(self) -> dict[str, Any] | None:
        """The configuration of the trial."""
        if self._config is not None:
            return self._config
        return (self.metrics or {}).get("config")

    @property
    def filesystem(self) -> LocalFileSystem:
        """Where `path` lies."""
        return local_files()

    @property
    def log_dir(self) -> Path | None:
        """The trial's folder, as programs of Ray 2.0 ask for it."""
        return None if self.path is None else Path(self.path)

    @property
    def metrics_dataframe(self) -> pd.DataFrame | None:
        """Every result of the trial, one row each; None if there is no record of them."""
        if self._metrics_dataframe is None and self._history is not None:
            self._metrics_dataframe = self._history.frame()
        return self._metrics_dataframe

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]] | None:
        """The checkpoints that were kept, oldest first, each with the metrics reported with it."""
        if self._best_checkpoints is None and self._history is not None:
            self._best_checkpoints = self._history.checkpoints()
        return self._best_checkpoints

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """Give the checkpoint with the best value of a metric (`a/b` for a nested one); None if there is no checkpoint.

        Raises:
            RuntimeError: If no checkpoint was reported together with that metric.
        """
        if mode not in ("max", "min"):
            raise ValueError(f'Unsupported mode: {mode}. Please choose from ["min", "max"]!')
        kept = self.best_checkpoints
        if not kept:
            return None
        scored = [(value, checkpoint) for checkpoint, row in kept if is_number(value := look_up(row, metric))]
        if not scored:
            raise RuntimeError(
                f"Invalid metric name {metric}! You may choose from the following metrics: "
                f"{list(dict.fromkeys(key for _, row in kept for key in row))}."
            )
        # A checkpoint whose metric is not a number is chosen only if there is no other.
        finite = [one for one in scored if not math.isnan(one[0])] or scored
        best = max if mode == "max" else min
        return best(finite, key=lambda one: one[0])[1]

    @classmethod
    def from_path(cls, path: str | Path, storage_filesystem: object = None) -> Result:
        """Read a result back from a trial's folder.

        Raises:
            RuntimeError: If there is no such folder, or no result in it.
        """
        del storage_filesystem  # there is only one
        folder = Path(path).expanduser()
        if not folder.is_dir():
            raise RuntimeError(f"Trial folder {folder} doesn't exist!")
        history = History(folder)
        if not history.is_recorded():
            raise RuntimeError(
                f"Failed to restore the Result object: Neither {EXPR_RESULT_FILE} nor {EXPR_PROGRESS_FILE} exists in the trial folder!"
            )
        rows = history.rows()
        kept = history.checkpoints()
        config = history.config()
        metrics = dict(rows[-1]) if rows else {}
        if config is not None:
            metrics.setdefault("config", config)
        return cls(
            metrics=metrics,
            checkpoint=kept[-1][0] if kept else None,
            error=read_error(folder),
            path=str(folder),
            best_checkpoints=kept,
            config=config,
            history=history,
        )

    def _repr(self, indent: int = 0) -> str:
        shown: dict[str, Any] = {}
        if self.error is not None:
            shown["error"] = type(self.error).__name__
        shown["metrics"] = self.metrics
        if self.metrics:
            shown["metrics"] = {key: value for key, value in self.metrics.items() if key not in BOOKKEEPING_KEYS}
        shown["path"] = self.path
        shown["filesystem"] = self.filesystem.type_name
        shown["checkpoint"] = self.checkpoint
        outer, inner = " " * indent, " " * (indent + 2)
        lines = ",\n".join(f"{inner}{name}={value!r}" for name, value in shown.items())
        return f"{outer}{type(self).__name__}(\n{lines}\n{outer})"

    def __repr__(self) -> str:
        return self._repr()


def local_files() -> LocalFileSystem:
    """Give the only place where results lie so far: this machine's own files."""
    from eagleray.tune._checkpoint import LocalFileSystem

    return LocalFileSystem()
