"""Settings of IMPALA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm


class IMPALAConfig(AlgorithmConfig):
    """What IMPALA is told."""

    ENGINE = "IMPALA"
    OWN: ClassVar[dict[str, dict[str, Any]]] = {
        "training": {
            "lr": 5e-4,
            "train_batch_size": 500,
            "vtrace": True,
            "vtrace_clip_rho_threshold": 1.0,
            "vtrace_clip_pg_rho_threshold": 1.0,
            "learner_queue_size": 3,
            "learner_queue_timeout": 300,
            "broadcast_interval": 1,
            "timeout_s_sampler_manager": 0.0,
            "timeout_s_aggregator_manager": 0.0,
            "grad_clip": 40.0,
            "opt_type": "adam",
            "decay": 0.99,
            "momentum": 0.0,
            "epsilon": 0.1,
            "adam_epsilon": 1e-8,
            "vf_loss_coeff": 0.5,
            "entropy_coeff": 0.01,
        },
        "env_runners": {
            "num_env_runners": 2,
            "rollout_fragment_length": 50,
            "max_requests_in_flight_per_env_runner": 2,
        },
        # RLlib's ten seconds fit its speed; see A2C.
        "reporting": {"min_time_s_per_iteration": 1},
    }

    @classmethod
    def default_algo_class(cls) -> type[Algorithm]:
        """IMPALA."""
        from eagleray.rllib.algorithms.impala.impala import IMPALA

        return IMPALA


ImpalaConfig = IMPALAConfig

__all__ = ["IMPALAConfig", "ImpalaConfig"]
