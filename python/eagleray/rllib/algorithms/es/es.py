"""Evolution strategies: tries weights around the present ones, and moves to where returns are."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from eagleray.rllib.algorithms._settings import DEFAULT_POLICY_ID
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.es.es_config import ESConfig
from eagleray.rllib.utils.metrics._episodes import EpisodeRecord

#: Candidates that each runner gets at a time; enough to hide the way there and back.
_EACH = 8


class ES(Algorithm):
    """Evolution strategies with mirrored noise and ranks."""

    config_class: ClassVar[type[ESConfig]] = ESConfig

    def training_step(self) -> None:
        """One generation: episodes until there are enough of them and of their steps."""
        config = self.config
        learner = self.learners[DEFAULT_POLICY_ID]
        returns: list[float] = []
        lengths: list[int] = []
        while len(returns) < config.episodes_per_batch or sum(lengths) < config.train_batch_size:
            left = config.episodes_per_batch - len(returns)
            runners = max(config.num_env_runners, 1)
            # Pairs: each candidate comes with its mirror image.
            count = 2 * max(1, min(_EACH * runners, left) // 2)
            with self.timers.measure("env_runner_sampling_timer"):
                calls: list[tuple[str, tuple[Any, ...]]] = [
                    ("try_weights", (weights, {}, 1)) for weights in learner.ask(count)
                ]
                answers = self.env_runner_group.map(calls)
            for answer in answers:
                # Of a runner that failed nothing is known; the learner leaves its pair out.
                (total, length), steps = (answer[0][0], answer[1]) if answer is not None else ((math.nan, 0), 0)
                returns.append(total)
                lengths.append(length)
                self.counters.add("env_steps_sampled", steps)
                self.counters.add("agent_steps_sampled", steps)
                if answer is not None:
                    one = {DEFAULT_POLICY_ID: [total]}
                    self._episodes.add([EpisodeRecord(total, length, agents={"default_agent": total}, policies=one)])
        now = self.settings_now(DEFAULT_POLICY_ID)
        with self.timers.measure("learner_update_timer"):
            self.learned(DEFAULT_POLICY_ID, learner.tell(returns, lengths, now), now)
        self.count_trained(sum(lengths))
        self.sync_weights()


__all__ = ["ES", "ESConfig"]
