"""A2C: one step for each batch."""

from __future__ import annotations

from typing import ClassVar

from eagleray.rllib.algorithms._on_policy import OnPolicy
from eagleray.rllib.algorithms.a2c.a2c_config import A2CConfig


class A2C(OnPolicy):
    """Advantage actor-critic, with runners that keep pace."""

    config_class: ClassVar[type[A2CConfig]] = A2CConfig


__all__ = ["A2C", "A2CConfig"]
