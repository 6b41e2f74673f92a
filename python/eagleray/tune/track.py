"""Reporting as the first users of Tune knew it: `tune.track.log(mean_accuracy=...)`."""

from __future__ import annotations

from typing import Any

from eagleray.tune import _session


def log(**metrics: Any) -> None:
    """Report metrics of one iteration."""
    _session.report(metrics)


def init(*_: Any, **__: Any) -> None:
    """Nothing has to be made ready."""


def shutdown() -> None:
    """Nothing has to be closed."""


def trial_dir() -> str | None:
    """The trial's folder."""
    return _session.get_trial_dir()
