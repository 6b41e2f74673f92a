"""What an experiment writes if it is not told otherwise: all files of a trial, from one look at each result."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any

from eagleray._native import tune as native
from eagleray.tune.logger._params import write_error, write_params
from eagleray.tune.logger.files import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
from eagleray.tune.logger.logger import LoggerCallback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagleray.tune.callback import Callback
    from eagleray.tune.experiment.trial import Trial

#: Set to 1, only what the program's own callbacks write is written.
DISABLE = "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"


class DefaultLogs(LoggerCallback):
    """progress.csv, result.json, TensorBoard's events, params.json and .pkl, error.txt and .pkl.

    What a callback among `callbacks` writes already is left to it. The engine calls `start`, `result`, `failed`, `end`,
    `flush` and `close`; as a callback it does the same by itself.
    """

    def __init__(self, plan: Any = None, *, callbacks: Iterable[Callback] | None = None) -> None:
        own = list((getattr(plan, "callbacks", None) or ()) if callbacks is None else callbacks)
        is_on = os.environ.get(DISABLE, "0") != "1"
        self._kinds = {
            "csv": is_on and not any(isinstance(one, CSVLoggerCallback) for one in own),
            "json": is_on and not any(isinstance(one, JsonLoggerCallback) for one in own),
            "tensorboard": is_on and not any(isinstance(one, TBXLoggerCallback) for one in own),
        }
        self._logs: dict[str, Any] = {}
        #: Those with something in memory.
        self._fresh: dict[str, Any] = {}

    def start(self, trial: Trial) -> None:
        """A trial starts, for the first time or again: its folder and its configuration are written."""
        if trial.path is None:
            return
        trial.path.mkdir(parents=True, exist_ok=True)
        if self._kinds["json"]:
            write_params(trial.path, trial.config)

    def result(self, trial: Trial, metrics: dict[str, Any], static: dict[str, Any] | None = None) -> bytes:
        """Take a result in and return it as a line of JSON. `static` is what all results of this run of the trial carry."""
        logs = self._logs.get(trial.trial_id)
        if logs is None:
            logs = self._logs[trial.trial_id] = self._open(trial)
        self._fresh[trial.trial_id] = logs
        line: bytes = logs.result(metrics, static)
        return line

    def rewrite(self, trial: Trial, results: Iterable[dict[str, Any]]) -> None:
        """Make the trial's files anew from these results: those of its journal, which may know more or fewer than the files."""
        self.end(trial)
        if trial.path is None:
            return
        trial.path.mkdir(parents=True, exist_ok=True)
        logs = self._logs[trial.trial_id] = self._open(trial, fresh=True)
        for result in results:
            logs.result(result)
        logs.flush()

    def failed(self, trial: Trial, error: BaseException, text: str = "") -> None:
        """Write what has ended a trial, or this attempt at it."""
        if trial.path is None:
            return
        trial.path.mkdir(parents=True, exist_ok=True)
        write_error(trial.path, error, text or "".join(traceback.format_exception(error)))

    def end(self, trial: Trial) -> None:
        """Nothing more comes of a trial, for now."""
        self._fresh.pop(trial.trial_id, None)
        logs = self._logs.pop(trial.trial_id, None)
        if logs is not None:
            if trial.evaluated_params:
                logs.hparams(trial.evaluated_params)
            logs.close()

    def flush(self) -> None:
        """Everything is in the files now."""
        while self._fresh:
            trial_id = next(iter(self._fresh))
            self._fresh[trial_id].flush()
            del self._fresh[trial_id]

    def close(self) -> None:
        """Nothing more comes at all."""
        self._fresh.clear()
        while self._logs:
            _, logs = self._logs.popitem()
            logs.close()

    def log_trial_start(self, trial: Trial) -> None:
        """As `start`."""
        self.start(trial)

    def log_trial_restore(self, trial: Trial) -> None:
        """As `start`."""
        self.start(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """As `result`, written at once."""
        self.result(trial, result)
        self.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """As `end`."""
        if failed and trial.error is not None:
            self.failed(trial, trial.error)
        self.end(trial)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_logs": {}, "_fresh": {}}

    def _open(self, trial: Trial, *, fresh: bool = False) -> Any:
        if trial.path is None:
            return native.TrialLogs("", csv=False, json=False, tensorboard=False)
        return native.TrialLogs(str(trial.path), **self._kinds, fresh=fresh)


def default_callbacks(callbacks: Iterable[Callback] | None = None) -> list[Callback]:
    """Give the program's callbacks, and before them the one that writes what they do not write."""
    own = list(callbacks or ())
    return [DefaultLogs(callbacks=own), *own]
