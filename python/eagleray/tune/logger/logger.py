"""Base classes of loggers: callbacks of today, and the `Logger` classes of old."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from eagleray.tune.callback import Callback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eagleray.tune.experiment.trial import Trial


class LoggerCallback(Callback):
    """Subclass it and override the `log_trial_*` methods."""

    def log_trial_start(self, trial: Trial) -> None:
        """A trial starts."""

    def log_trial_restore(self, trial: Trial) -> None:
        """A trial goes on from a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """A checkpoint of a trial has been kept."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has reported."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Nothing more comes of a trial."""

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        """Log it."""
        self.log_trial_result(iteration, trial, result)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Log it."""
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Log it."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Log it."""
        self.log_trial_save(trial)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Log its end."""
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Log its end."""
        self.log_trial_end(trial, failed=True)


class Logger:
    """The logger of old: one instance for each trial. Override `_init`, `on_result` and `close`."""

    def __init__(self, config: dict[str, Any], logdir: str, trial: Trial | None = None) -> None:
        self.config = config
        self.logdir = logdir
        self.trial = trial
        self._init()

    def _init(self) -> None:
        pass

    def on_result(self, result: dict[str, Any]) -> None:
        """A result has come."""
        raise NotImplementedError(f"{type(self).__name__} has no on_result()")

    def update_config(self, config: dict[str, Any]) -> None:
        """The trial has another configuration from now on."""

    def close(self) -> None:
        """Nothing more comes."""

    def flush(self) -> None:
        """Write what is still in memory."""


class NoopLogger(Logger):
    """Does nothing."""

    def on_result(self, result: dict[str, Any]) -> None:
        """Does nothing."""


class UnifiedLogger(Logger):
    """Several loggers of old as one."""

    def __init__(
        self,
        config: dict[str, Any],
        logdir: str,
        trial: Trial | None = None,
        loggers: Iterable[type[Logger]] | None = None,
    ) -> None:
        if loggers is None:
            from eagleray.tune.logger.files import DEFAULT_LOGGERS

            loggers = DEFAULT_LOGGERS
        self._classes = list(loggers)
        self._loggers: list[Logger] = []
        super().__init__(config, logdir, trial)

    def _init(self) -> None:
        self._loggers = [one(self.config, self.logdir, self.trial) for one in self._classes]

    def on_result(self, result: dict[str, Any]) -> None:
        """Pass it on."""
        for one in self._loggers:
            one.on_result(result)

    def update_config(self, config: dict[str, Any]) -> None:
        """Pass it on."""
        for one in self._loggers:
            one.update_config(config)

    def close(self) -> None:
        """Pass it on."""
        for one in self._loggers:
            one.close()

    def flush(self) -> None:
        """Pass it on."""
        for one in self._loggers:
            one.flush()


class LegacyLoggerCallback(LoggerCallback):
    """Runs loggers of old: `tune.run(loggers=[...])`."""

    def __init__(self, logger_classes: Iterable[type[Logger]]) -> None:
        self.logger_classes = list(logger_classes)
        self._loggers: dict[str, list[Logger]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """One instance of each class, or the trial's new configuration for those that are there."""
        known = self._loggers.get(trial.trial_id)
        if known is not None:
            for one in known:
                one.update_config(trial.config)
            return
        folder = str(trial.path) if trial.path is not None else ""
        self._loggers[trial.trial_id] = [one(trial.config, folder, trial) for one in self.logger_classes]

    def log_trial_restore(self, trial: Trial) -> None:
        """Pass it on."""
        for one in self._loggers.get(trial.trial_id, ()):
            one.flush()

    def log_trial_save(self, trial: Trial) -> None:
        """Pass it on."""
        for one in self._loggers.get(trial.trial_id, ()):
            one.flush()

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Pass it on."""
        if trial.trial_id not in self._loggers:
            self.log_trial_start(trial)
        for one in self._loggers[trial.trial_id]:
            one.on_result(result)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Close the trial's loggers; they are made again should it start again."""
        for one in self._loggers.pop(trial.trial_id, ()):
            one.flush()
            one.close()


def pretty_print(result: Mapping[str, Any], exclude: Iterable[str] | None = None) -> str:
    """Write a result for people: a line for each value, nested ones indented, without the configuration."""
    left_out = {"config", *(exclude or ())}
    shown = {key: value for key, value in result.items() if key not in left_out and value is not None}
    return "\n".join([*_lines(shown, ""), ""])


def _lines(fields: Mapping[str, Any], indent: str) -> Iterable[str]:
    for key in sorted(fields, key=str):
        value = fields[key]
        if isinstance(value, dict):
            if value:
                yield f"{indent}{key}:"
                yield from _lines(value, indent + "  ")
            else:
                yield f"{indent}{key}: {{}}"
        else:
            yield f"{indent}{key}: {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return ".nan"
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        return repr(float(value))
    if isinstance(value, str):
        return value
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        value = tolist()
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
