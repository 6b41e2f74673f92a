"""Keras's epochs and batches as results of a trial."""

from __future__ import annotations

from collections import Counter
from typing import Any

from eagleray import tune
from eagleray.tune.integration._reporting import Metrics, chosen, library, report_with

_keras = library("tune.integration.keras", "keras", "tensorflow.keras", install="keras")

_EVENTS = (
    "epoch_begin",
    "epoch_end",
    "train_batch_begin",
    "train_batch_end",
    "test_batch_begin",
    "test_batch_end",
    "predict_batch_begin",
    "predict_batch_end",
    "train_begin",
    "train_end",
    "test_begin",
    "test_end",
    "predict_begin",
    "predict_end",
)
_OLDER = {"batch_begin": "train_batch_begin", "batch_end": "train_batch_end"}


class ReportCheckpointCallback(_keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Reports Keras's logs, and the model as a checkpoint, when something happens.

    Args:
        checkpoint_on: events with a checkpoint, such as "epoch_end".
        report_metrics_on: events that are reported.
        metrics: which numbers; a dict names them anew: `{"loss": "val_loss"}`.
        filename: of the model within a checkpoint.
        frequency: a checkpoint only every so many times.
    """

    def __init__(
        self,
        checkpoint_on: str | list[str] = "epoch_end",
        report_metrics_on: str | list[str] = "epoch_end",
        metrics: Metrics = None,
        filename: str = "model.keras",
        frequency: int = 1,
    ) -> None:
        super().__init__()
        self._saves = _events(checkpoint_on)
        self._reports = _events(report_metrics_on)
        self._wanted = metrics
        self._filename = filename
        self._frequency = frequency
        self._times: Counter[str] = Counter()

    def _happened(self, event: str, logs: dict[str, Any] | None) -> None:
        if event not in self._saves and event not in self._reports:
            return
        self._times[event] += 1
        metrics = {name: float(value) for name, value in chosen(self._wanted, logs or {}, is_strict=False).items()}
        if event in self._saves and self._frequency and self._times[event] % self._frequency == 0:
            report_with(metrics, lambda folder: self.model.save(f"{folder}/{self._filename}"))
        elif event in self._reports:
            tune.report(metrics)


def _events(given: str | list[str]) -> set[str]:
    events = {_OLDER.get(event, event) for event in ([given] if isinstance(given, str) else given)}
    for event in events:
        if event not in _EVENTS:
            raise ValueError(f"{event!r} is none of Keras's events: {', '.join(_EVENTS)}")
    return events


def _add_hook(event: str) -> None:
    # Batches and epochs are told by their number first.
    has_number = event.startswith("epoch") or "_batch_" in event

    def numbered(self: ReportCheckpointCallback, number: int, logs: dict[str, Any] | None = None) -> None:
        self._happened(event, logs)

    def plain(self: ReportCheckpointCallback, logs: dict[str, Any] | None = None) -> None:
        self._happened(event, logs)

    setattr(ReportCheckpointCallback, f"on_{event}", numbered if has_number else plain)


for _event in _EVENTS:
    _add_hook(_event)


class TuneReportCheckpointCallback(ReportCheckpointCallback):
    """The older name.

    Args:
        metrics: which numbers.
        filename: of the model within a checkpoint.
        frequency: a checkpoint only every so many times.
        on: when.
    """

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = "model.keras",
        frequency: int = 1,
        on: str | list[str] = "epoch_end",
    ) -> None:
        super().__init__(on, on, metrics, filename, frequency)


class TuneReportCallback(ReportCheckpointCallback):
    """Reports metrics alone.

    Args:
        metrics: which numbers.
        on: when.
    """

    def __init__(self, metrics: Metrics = None, on: str | list[str] = "epoch_end") -> None:
        super().__init__([], on, metrics)


__all__ = ["ReportCheckpointCallback", "TuneReportCallback", "TuneReportCheckpointCallback"]
