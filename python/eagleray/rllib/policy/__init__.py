"""Policies."""

from eagleray.rllib.policy.policy import PolicySpec

__all__ = ["PolicySpec"]
