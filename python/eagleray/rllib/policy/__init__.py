"""Policies."""

from eagleray.rllib.policy.policy import Policy, PolicySpec

__all__ = ["Policy", "PolicySpec"]
