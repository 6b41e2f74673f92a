"""Settings of evolution strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm


class ESConfig(AlgorithmConfig):
    """What evolution strategies are told."""

    ENGINE = "ES"
    OWN: ClassVar[dict[str, dict[str, Any]]] = {
        "training": {
            "action_noise_std": 0.01,
            "l2_coeff": 0.005,
            "noise_stdev": 0.02,
            "episodes_per_batch": 1000,
            "train_batch_size": 10000,
            "eval_prob": 0.03,
            "stepsize": 0.01,
            "noise_size": 250_000_000,
            "report_length": 10,
            "return_proc_mode": "centered_rank",
            "model": {"fcnet_hiddens": [256, 256]},
        },
        # RLlib starts ten; they wait for cores that most machines do not have. Its filter is not there: only returns come back from runners.
        "env_runners": {"num_env_runners": 2, "observation_filter": "NoFilter"},
    }

    @classmethod
    def default_algo_class(cls) -> type[Algorithm]:
        """Evolution strategies."""
        from eagleray.rllib.algorithms.es.es import ES

        return ES


__all__ = ["ESConfig"]
