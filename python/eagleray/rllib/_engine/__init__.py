"""Where the engine is found: the one that is built in, or another that a program names."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from eagleray.rllib.utils.error import numpy_needed

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Engine

#: `module:name` of another engine. An environment variable, so that runners in other processes find the same.
ENGINE_VARIABLE = "EAGLERAY_RL_ENGINE"
_BUILT_IN = "eagleray.rllib._engine.native:Engine"


def engine() -> Engine:
    """The engine of this process."""
    numpy_needed()
    named = os.environ.get(ENGINE_VARIABLE, _BUILT_IN)
    module, _, name = named.partition(":")
    made: Engine = getattr(importlib.import_module(module), name)()
    return made
