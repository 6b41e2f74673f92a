"""The native state machines behind the schedulers: the one place of this folder that touches the extension module."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray._native_tune_schedule import Asha, Hyperband, Median, Pb2, Pbt, Step
else:
    from eagleray._native import tune as _tune

    Asha, Hyperband, Median, Pb2, Pbt = _tune.Asha, _tune.Hyperband, _tune.Median, _tune.Pb2, _tune.Pbt
    Step = tuple

__all__ = ["Asha", "Hyperband", "Median", "Pb2", "Pbt", "Step"]
