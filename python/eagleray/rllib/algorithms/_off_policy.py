"""Rounds of algorithms that learn from all they remember: sample a little, remember it, learn from some of the rest.

The replay is the learner's. How many updates a round has follows from `training_intensity`, or else there is one for each fragment.
"""

from __future__ import annotations

from typing import Any

from eagleray.rllib.algorithms.algorithm import Algorithm

#: Where the length of fragments is left to us, so many steps make a round, with as many updates as they are worth; weights are handed out once a
#: round. More at once would be faster still, but some seeds then do not learn: LunarLander with 32 steps and 32 updates in turn.
_ROUND_STEPS = 8


class OffPolicy(Algorithm):
    """Samples and updates in a fixed proportion."""

    #: Updates that are due and not whole yet.
    _updates_due = 0.0

    def training_step(self) -> None:
        """One round."""
        config = self.config
        before = self.timestep
        rollouts = self.sample(self._round_steps())
        sampled = self.timestep - before
        updates = 0
        if self.timestep >= config.num_steps_sampled_before_learning_starts:
            self._updates_due += sampled * self._updates_per_step()
            updates = int(self._updates_due)
            self._updates_due -= updates
        self.learn(rollouts, updates=updates)
        self.count_trained(updates * config.total_train_batch_size)
        self.sync_weights()

    def _fragment_steps(self) -> int:
        config = self.config
        each = config.get_rollout_fragment_length() * config.num_envs_per_env_runner
        return int(each * max(config.num_env_runners, 1))

    def _round_steps(self) -> int:
        fragment = self._fragment_steps()
        if self.config.rollout_fragment_length != "auto":
            return fragment
        # Not more than a result asks for.
        most = max(self.config.min_sample_timesteps_per_iteration, fragment)
        rounds = max(1, min(_ROUND_STEPS, most) // fragment)
        return int(rounds * fragment)

    def _updates_per_step(self) -> float:
        config = self.config
        if config.training_intensity:
            return float(config.training_intensity / config.total_train_batch_size)
        return 1.0 / self._fragment_steps()

    def own_state(self) -> dict[str, Any]:
        """The part of an update that is due."""
        return {"updates_due": self._updates_due}

    def restore_own(self, state: dict[str, Any]) -> None:
        """Go on from it."""
        self._updates_due = state["updates_due"]

    def settings_now(self, policy_id: str) -> dict[str, Any]:
        """What changes with the timestep, and how many steps there have been for those who count in steps."""
        return super().settings_now(policy_id) | {"updates": 0}
