"""Trying a policy without learning: between two rounds, or beside them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from eagleray.rllib.env.env_runner_group import EnvRunnerGroup
from eagleray.rllib.utils.metrics import MetricsLogger
from eagleray.rllib.utils.metrics._episodes import EpisodeStatistics
from eagleray.rllib.utils.metrics._results import evaluation_of, evaluation_of_both_eras

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.rllib.algorithms.algorithm import Algorithm
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig


class Evaluation:
    """The runners that evaluate, made when they are first needed."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.group: EnvRunnerGroup | None = None
        self._steps_lifetime = 0

    def run(self, *, is_training: Callable[[], bool] | None = None) -> dict[str, Any]:
        """One evaluation, as programs of either era read it. `is_training` says how long to go on where the duration is "auto"."""
        algorithm = self._algorithm
        config = algorithm.config
        if config.custom_evaluation_function is not None:
            said = config.custom_evaluation_function(algorithm, self._ready())
            return evaluation_of_both_eras(dict(said[0] if isinstance(said, tuple) else said))
        group = self._ready()
        hooks = algorithm._hooks
        logger = MetricsLogger()
        hooks.call("on_evaluate_start", algorithm=algorithm, metrics_logger=logger)
        with algorithm.timers.measure("evaluation_iteration"):
            result = evaluation_of_both_eras(self._sample(group, logger, is_training))
        hooks.call("on_evaluate_end", algorithm=algorithm, evaluation_metrics=result, metrics_logger=logger)
        return result

    def beside(self, train: Callable[[], None]) -> dict[str, Any]:
        """Evaluates while `train` runs."""
        self._ready()  # with the weights from before
        done = threading.Event()
        failure: list[BaseException] = []
        found: list[dict[str, Any]] = []

        def work() -> None:
            try:
                found.append(self.run(is_training=lambda: not done.is_set()))
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=work, name="evaluation")
        thread.start()
        try:
            train()
        finally:
            done.set()
            thread.join()
        if failure:
            raise failure[0]
        return found[0]

    def stop(self) -> None:
        """Ends the runners."""
        if self.group is not None:
            self.group.stop()

    def _ready(self) -> EnvRunnerGroup:
        algorithm = self._algorithm
        if self.group is None:
            self.group = EnvRunnerGroup(self._config(), on_recreated=algorithm._on_recreated)
            self.group.add_local_worker(algorithm)
        self.group.sync_weights(algorithm.weights_now())
        return self.group

    def change_policies(self) -> None:
        """Lets the runners go on with the policies that the algorithm has now."""
        if self.group is not None:
            self.group.change_policies(self._config())

    def _config(self) -> AlgorithmConfig:
        of_training = self._algorithm.config
        config: AlgorithmConfig = of_training.get_evaluation_config_object()
        if config.sample_timeout_s is not None:
            config.sample_timeout_s = of_training.evaluation_sample_timeout_s
        config.freeze()
        return config

    def _sample(
        self, group: EnvRunnerGroup, logger: MetricsLogger, is_training: Callable[[], bool] | None
    ) -> dict[str, Any]:
        config = self._algorithm.config
        unit = "num_episodes" if config.evaluation_duration_unit == "episodes" else "num_timesteps"
        statistics = EpisodeStatistics(10**9)
        is_auto = config.evaluation_duration == "auto"
        wanted = 0 if is_auto else int(config.evaluation_duration)
        runners = max(group.num_remote_env_runners(), 1)
        at_a_time = runners * (
            1 if unit == "num_episodes" else config.evaluation_auto_duration_min_env_steps_per_sample
        )
        steps, is_first = 0, True
        # Again where a runner failed and left a gap.
        while is_first or (
            (is_training is not None and is_training()) if is_auto else self._lacking(statistics, steps, wanted) > 0
        ):
            amount = at_a_time if is_auto else self._lacking(statistics, steps, wanted)
            reset = is_first and config.evaluation_force_reset_envs_before_iteration
            for sample, measured in group.sample_shared(unit, amount, force_reset=reset):
                steps += sample.env_steps
                statistics.add(measured.episodes)
                logger.take(measured.logged)
            is_first = False
        self._steps_lifetime += steps
        return evaluation_of(statistics, steps, self._steps_lifetime, logger.reduce())

    def _lacking(self, statistics: EpisodeStatistics, steps: int, wanted: int) -> int:
        """How much there is still to do."""
        is_of_episodes = self._algorithm.config.evaluation_duration_unit == "episodes"
        return wanted - (statistics.lifetime if is_of_episodes else steps)
