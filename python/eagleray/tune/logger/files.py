"""The loggers of each kind of file, for programs that name them. By default one callback writes all three at once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from eagleray._native import tune as native
from eagleray.tune.logger._params import write_params
from eagleray.tune.logger.logger import Logger, LoggerCallback

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial


def _writer(folder: str, kind: str) -> Any:
    return native.TrialLogs(folder, csv=kind == "csv", json=kind == "json", tensorboard=kind == "tensorboard")


class _FileCallback(LoggerCallback):
    """One kind of file, with a writer for each trial that runs."""

    _kind = ""

    def __init__(self) -> None:
        self._logs: dict[str, Any] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """The trial's file begins, or goes on."""
        if trial.path is None or trial.trial_id in self._logs:
            return
        trial.path.mkdir(parents=True, exist_ok=True)
        self._logs[trial.trial_id] = _writer(str(trial.path), self._kind)

    def log_trial_restore(self, trial: Trial) -> None:
        """As a start."""
        self.log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """A line, a row or an event."""
        if trial.trial_id not in self._logs:
            self.log_trial_start(trial)
        logs = self._logs.get(trial.trial_id)
        if logs is not None:
            logs.result(result)
            logs.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """The file is closed."""
        logs = self._logs.pop(trial.trial_id, None)
        if logs is not None:
            logs.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_logs": {}}


class CSVLoggerCallback(_FileCallback):
    """Writes progress.csv."""

    _kind = "csv"


class JsonLoggerCallback(_FileCallback):
    """Writes result.json, params.json and params.pkl."""

    _kind = "json"

    def log_trial_start(self, trial: Trial) -> None:
        """Also the configuration."""
        super().log_trial_start(trial)
        if trial.path is not None:
            write_params(trial.path, trial.config)


class TBXLoggerCallback(_FileCallback):
    """Writes TensorBoard's event files. Needs no other package."""

    _kind = "tensorboard"

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Also the parameters, for the page of hyper-parameters."""
        logs = self._logs.get(trial.trial_id)
        if logs is not None and trial.evaluated_params:
            logs.hparams(trial.evaluated_params)
        super().log_trial_end(trial, failed=failed)


class _FileLogger(Logger):
    """A logger of old that writes one kind of file."""

    _kind = ""

    def _init(self) -> None:
        self._logs = _writer(str(self.logdir), self._kind)

    def on_result(self, result: dict[str, Any]) -> None:
        """A line, a row or an event."""
        self._logs.result(result)
        self._logs.flush()

    def flush(self) -> None:
        """Write what is still in memory."""
        self._logs.flush()

    def close(self) -> None:
        """The file is closed."""
        self._logs.close()


class CSVLogger(_FileLogger):
    """Writes progress.csv."""

    _kind = "csv"


class JsonLogger(_FileLogger):
    """Writes result.json, params.json and params.pkl."""

    _kind = "json"

    def _init(self) -> None:
        super()._init()
        self.update_config(self.config)

    def update_config(self, config: dict[str, Any]) -> None:
        """Write the configuration."""
        self.config = config
        with contextlib.suppress(FileNotFoundError):
            write_params(self.logdir, config)


class TBXLogger(_FileLogger):
    """Writes TensorBoard's event files."""

    _kind = "tensorboard"


#: What an experiment writes if it is not told otherwise.
DEFAULT_LOGGERS: tuple[type[Logger], ...] = (JsonLogger, CSVLogger, TBXLogger)
