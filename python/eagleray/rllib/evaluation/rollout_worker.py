"""Runners, under the older path."""

from eagleray.rllib.env.env_runner import EnvRunner as RolloutWorker

__all__ = ["RolloutWorker"]
