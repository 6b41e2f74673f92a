"""Who wants to be told of what happens: subclass and write the methods that you need."""

from __future__ import annotations

from typing import Any


class RLlibCallback:
    """Every method is called with keyword arguments; write those that you use, and `**kwargs` for the rest.

    Methods about episodes get `episode`, `env_runner` (older: `worker`), `env` (older: `base_env`), `env_index`, `rl_module` (older:
    `policies`) and `metrics_logger`.
    """

    def __init__(self, legacy_callbacks_dict: dict[str, Any] | None = None) -> None:
        """Keep the functions of the oldest form, where there are some."""
        self.legacy_callbacks = legacy_callbacks_dict or {}

    # In the process of the algorithm.

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """The algorithm is set up."""

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """An iteration is over. What is written into `result` is reported."""

    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        """An evaluation begins."""

    def on_evaluate_end(self, *, algorithm: Any, evaluation_metrics: dict[str, Any], **kwargs: Any) -> None:
        """An evaluation is over."""

    def on_env_runners_recreated(self, *, algorithm: Any, env_runner_indices: list[int], **kwargs: Any) -> None:
        """Runners that failed were replaced."""

    def on_workers_recreated(self, *, algorithm: Any, worker_ids: list[int], **kwargs: Any) -> None:
        """Runners that failed were replaced: the older name."""

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """The algorithm goes on from a checkpoint."""

    def on_create_policy(self, *, policy_id: str, policy: Any, **kwargs: Any) -> None:
        """A policy was made."""

    def on_learn_on_batch(self, *, policy: Any, train_batch: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """A batch was learned from."""

    # In the process of a runner.

    def on_environment_created(self, *, env_runner: Any, env: Any, env_context: Any, **kwargs: Any) -> None:
        """A runner has made its environments."""

    def on_sub_environment_created(self, *, worker: Any, sub_environment: Any, env_context: Any, **kwargs: Any) -> None:
        """A runner has made one of its environments."""

    def on_episode_created(self, *, episode: Any, **kwargs: Any) -> None:
        """An episode is about to begin."""

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        """An episode has begun."""

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        """A step of an episode is done."""

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """An episode is over."""

    def on_sample_end(self, *, env_runner: Any, samples: Any, **kwargs: Any) -> None:
        """A runner has sampled what it was asked for."""

    def on_postprocess_trajectory(self, **kwargs: Any) -> None:
        """Kept for its name: samples are not Python objects here, and nobody calls it."""


DefaultCallbacks = RLlibCallback


def make_multi_callbacks(callback_class_list: list[Any]) -> Any:
    """All these classes as one list, which `callbacks` takes."""
    return list(callback_class_list)
