"""Lightning's validations, or other events, as results of a trial."""

from __future__ import annotations

from typing import Any

from eagleray import tune
from eagleray.tune.integration._reporting import Metrics, chosen, library, report_with

_lightning = library(
    "tune.integration.pytorch_lightning", "lightning.pytorch", "pytorch_lightning", install="lightning"
)


class TuneCallback(_lightning.Callback):  # type: ignore[misc, name-defined]
    """Does something when something happens: a subclass has `_handle(trainer, pl_module)`.

    Args:
        on: Lightning's events without their `on_`, such as "validation_end".
    """

    def __init__(self, on: str | list[str] = "validation_end") -> None:
        super().__init__()
        for event in [on] if isinstance(on, str) else on:
            if not hasattr(_lightning.Callback, f"on_{event}"):
                raise ValueError(
                    f"{event!r} is none of Lightning's events, such as 'validation_end' or 'train_epoch_end'"
                )
            # Lightning asks an object, not its class, whether it has a hook.
            setattr(self, f"on_{event}", self._hooked)

    def _hooked(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        self._handle(trainer, pl_module)

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        raise NotImplementedError


class TuneReportCheckpointCallback(TuneCallback):
    """Reports Lightning's metrics, and a checkpoint of its trainer.

    Args:
        metrics: which of `trainer.callback_metrics`; a dict names them anew: `{"loss": "val_loss"}`.
        filename: of the trainer's checkpoint within Tune's.
        save_checkpoints: whether there are checkpoints.
        on: when.
    """

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,  # noqa: FBT001, FBT002
        on: str | list[str] = "validation_end",
    ) -> None:
        super().__init__(on)
        self._metrics = metrics
        self._filename = filename
        self._saves = save_checkpoints

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        # The validation that is tried before training says nothing.
        if trainer.sanity_checking:
            return
        found = chosen(self._metrics, dict(trainer.callback_metrics), is_strict=False)
        metrics = {name: value.item() if hasattr(value, "item") else value for name, value in found.items()}
        if not metrics:
            return
        if self._saves:
            report_with(metrics, lambda folder: trainer.save_checkpoint(f"{folder}/{self._filename}"))
        else:
            tune.report(metrics)


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics alone.

    Args:
        metrics: which of `trainer.callback_metrics`.
        on: when.
    """

    def __init__(self, metrics: Metrics = None, on: str | list[str] = "validation_end") -> None:
        super().__init__(metrics, save_checkpoints=False, on=on)


__all__ = ["TuneCallback", "TuneReportCallback", "TuneReportCheckpointCallback"]
