"""Ends an experiment whose best results no longer change."""

from __future__ import annotations

import math
import statistics
from typing import Any

from eagleray.tune.stopper.stopper import Stopper


class ExperimentPlateauStopper(Stopper):
    """Ends the whole experiment when the best values that were ever reported hardly differ.

    Args:
        metric: what is looked at. Results without it, or where it is not finite, are passed over.
        std: up to this standard deviation the best values are the same.
        top: how many of the best values are looked at.
        mode: "min" or "max".
        patience: for so many results the best values must have been the same.
    """

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        if mode not in ("min", "max"):
            raise ValueError("The mode parameter can only be either min or max.")
        _check(std, top, patience)
        self._mode = mode
        self._metric = metric
        self._patience = patience
        self._iterations = 0
        self._std = std
        self._top = top
        self._top_values: list[float] = []

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Notes the value; ends every trial once the experiment has come to rest."""
        value = result.get(self._metric)
        if value is not None and math.isfinite(value):
            values = sorted([*self._top_values, float(value)], reverse=self._mode == "max")
            self._top_values = values[: self._top]
            self._iterations = self._iterations + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Whether the best values are the same."""
        return len(self._top_values) == self._top and statistics.pstdev(self._top_values) <= self._std

    def stop_all(self) -> bool:
        """Whether they have been for long enough."""
        return self.has_plateaued() and self._iterations >= self._patience


def _check(std: object, top: object, patience: object) -> None:
    if not isinstance(top, int) or top <= 1:
        raise ValueError("Top results to consider must be a positive integer greater than one.")
    if not isinstance(patience, int) or patience < 0:
        raise ValueError("Patience must be a strictly positive integer.")
    if not isinstance(std, float) or std <= 0:
        raise ValueError("The standard deviation must be a strictly positive float number.")
