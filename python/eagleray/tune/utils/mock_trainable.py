"""A trainable that learns nothing, for programs that try Tune out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from eagleray.tune.registry import register_trainable
from eagleray.tune.trainable import Trainable

MOCK_TRAINABLE_NAME = "mock_trainable"


class MyTrainableClass(Trainable):
    """Its reward rises along a tanh: `height` is how far, `width` how slowly."""

    timestep: int

    def setup(self, config: dict[str, Any]) -> None:
        """Begin."""
        self.timestep = 0

    def step(self) -> dict[str, Any]:
        """One step further."""
        self.timestep += 1
        risen = math.tanh(self.timestep / self.config.get("width", 1))
        return {"episode_reward_mean": risen * self.config.get("height", 1)}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write how far it is."""
        (Path(checkpoint_dir) / "checkpoint").write_text(json.dumps({"timestep": self.timestep}))

    def load_checkpoint(self, checkpoint_dir: Any) -> None:
        """Go on from there."""
        self.timestep = json.loads((Path(checkpoint_dir) / "checkpoint").read_text())["timestep"]


def register_mock_trainable() -> None:
    """Makes it known by the name `"mock_trainable"`."""
    register_trainable(MOCK_TRAINABLE_NAME, MyTrainableClass)


__all__ = ["MOCK_TRAINABLE_NAME", "MyTrainableClass", "register_mock_trainable"]
