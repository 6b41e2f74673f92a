"""IMPALA: runners never wait for the learner, which corrects for the age of their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.impala.impala_config import IMPALAConfig

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Rollout


class IMPALA(Algorithm):
    """Importance-weighted actor-learner: V-trace over what asynchronous runners send."""

    config_class: ClassVar[type[IMPALAConfig]] = IMPALAConfig

    _updates = 0

    def training_step(self) -> None:
        """One batch of what came first."""
        config = self.config
        found: dict[str, list[Rollout]] = {name: [] for name in self.learners}
        steps = 0
        with self.timers.measure("env_runner_sampling_timer"):
            while steps < config.total_train_batch_size:
                for sample, measured in self.env_runner_group.sample_async():
                    steps += sample.env_steps
                    self.take_up(sample, measured)
                    self.sort(sample, found)
        # The others sample on while this learns.
        if config.num_env_runners:
            self.env_runner_group.ask()
        learned = self.learn(found)
        self.count_trained(steps, learned)
        self._updates += 1
        if self._updates % max(config.broadcast_interval, 1) == 0:
            self.sync_weights()

    def own_state(self) -> dict[str, Any]:
        """Updates so far, of which some are handed out."""
        return {"updates": self._updates}

    def restore_own(self, state: dict[str, Any]) -> None:
        """Go on from it."""
        self._updates = state["updates"]


Impala = IMPALA

__all__ = ["IMPALA", "IMPALAConfig", "Impala"]
