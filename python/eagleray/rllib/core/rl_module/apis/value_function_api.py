"""Modules that say what states are worth."""

from __future__ import annotations

import abc
from typing import Any


class ValueFunctionAPI(abc.ABC):
    """A module that PPO, A2C and IMPALA can learn with."""

    @abc.abstractmethod
    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """What each observation is worth. `embeddings` is what `_forward_train` gave under that name."""


__all__ = ["ValueFunctionAPI"]
