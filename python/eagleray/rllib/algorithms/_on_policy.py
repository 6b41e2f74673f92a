"""Rounds of algorithms that learn from what their newest weights did: sample a batch, learn from it, forget it."""

from __future__ import annotations

from eagleray.rllib.algorithms.algorithm import Algorithm


class OnPolicy(Algorithm):
    """All runners sample with the same weights, and wait while they are changed."""

    def training_step(self) -> None:
        """One batch."""
        before = self.timestep
        rollouts = self.sample(self.config.total_train_batch_size)
        learned = self.learn(rollouts)
        self.count_trained(self.timestep - before, learned)
        self.sync_weights()
