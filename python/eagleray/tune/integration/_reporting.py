"""What the callbacks have in common: which numbers are reported, and how a model becomes a checkpoint."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import tune

if TYPE_CHECKING:
    from collections.abc import Callable

#: None: all; names; or by the name that is reported, the library's name.
Metrics = str | list[str] | dict[str, str] | None


def library(who: str, *names: str, install: str) -> Any:
    """The first of these modules that is there."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (f"{name}.").startswith(f"{error.name}."):
                raise
    text = f"{who} needs {names[0].partition('.')[0]}, which is not installed: run `pip install {install}`."
    raise ImportError(text)


def chosen(metrics: Metrics, found: dict[str, Any], *, is_strict: bool = True) -> dict[str, Any]:
    """What of the library's numbers is reported, and under which names. One that is not there is an error, or left out."""
    if not metrics:
        return dict(found)
    names = {metrics: metrics} if isinstance(metrics, str) else metrics
    pairs = names.items() if isinstance(names, dict) else [(name, name) for name in names]
    missing = [theirs for _, theirs in pairs if theirs not in found]
    if missing and is_strict:
        raise KeyError(f"{missing[0]!r} is none of the metrics that there are: {sorted(found)}")
    return {ours: found[theirs] for ours, theirs in pairs if theirs in found}


def report_with(metrics: dict[str, Any], write: Callable[[str], None]) -> None:
    """Reports numbers with a checkpoint, which `write` puts into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))


class BoosterReporter:
    """When a model of trees is reported, and when with a checkpoint. It comes before the library's own base class, which takes no arguments.

    Args:
        metrics: which numbers, all by default; a dict names them anew: `{"loss": "eval-logloss"}`.
        filename: what a model's file is called within a checkpoint.
        frequency: a checkpoint after so many rounds; 0 for none on the way.
        checkpoint_at_end: whether the trained model is one.
        results_postprocessing_fn: makes of all numbers those that are chosen from, such as means over folds.
    """

    CHECKPOINT_NAME: str

    def __init__(
        self,
        metrics: Metrics = None,
        filename: str | None = None,
        frequency: int = 0,
        checkpoint_at_end: bool = True,  # noqa: FBT001, FBT002
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._metrics = metrics
        self._filename = filename or self.CHECKPOINT_NAME
        self._frequency = frequency
        self._at_end = checkpoint_at_end
        self._process = results_postprocessing_fn
        self._is_saved = False

    @classmethod
    def get_model(cls, checkpoint: Any, filename: str | None = None) -> Any:
        """The booster that a checkpoint has."""
        with checkpoint.as_directory() as folder:
            return cls.read(str(Path(folder) / (filename or cls.CHECKPOINT_NAME)))

    @classmethod
    def read(cls, path: str) -> Any:
        """Reads a booster from a file."""
        raise NotImplementedError

    def told(self, found: dict[str, Any]) -> dict[str, Any]:
        """What is reported of the library's numbers."""
        return chosen(self._metrics, found if self._process is None else self._process(found))

    def is_due(self, round_number: int) -> bool:
        """Whether this round, counted from 0, has a checkpoint."""
        return self._frequency > 0 and (round_number + 1) % self._frequency == 0

    def report(self, metrics: dict[str, Any], model: Any, *, saves: bool) -> None:
        """Reports one round."""
        self._is_saved = saves
        if saves:
            report_with(metrics, lambda folder: self.write(model, f"{folder}/{self._filename}"))
        else:
            tune.report(metrics)

    def write(self, model: Any, path: str) -> None:
        """Writes a model into a file."""
        model.save_model(path)


class MetricsAlone(BoosterReporter):
    """Reports the numbers of every round, and no model."""

    def __init__(
        self,
        metrics: Metrics = None,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn)
