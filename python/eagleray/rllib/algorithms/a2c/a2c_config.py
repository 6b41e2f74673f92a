"""Settings of A2C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm


class A2CConfig(AlgorithmConfig):
    """What A2C is told. RLlib dropped it before its newer stack, so that there is one set of defaults."""

    ENGINE = "A2C"
    OWN: ClassVar[dict[str, dict[str, Any]]] = {
        "training": {
            "lr": 1e-4,
            "train_batch_size": 200,
            "use_critic": True,
            "use_gae": True,
            "lambda_": 1.0,
            "grad_clip": 40.0,
            "vf_loss_coeff": 0.5,
            "entropy_coeff": 0.01,
            "microbatch_size": None,
            # "adam", or "rmsprop" as its paper has it.
            "opt_type": "adam",
            "adam_epsilon": 1e-8,
            "decay": 0.99,
            "momentum": 0.0,
            "epsilon": 1e-5,
        },
        "env_runners": {"num_env_runners": 2, "rollout_fragment_length": "auto"},
        # RLlib waits ten seconds for each result here. Updates take a hundredth of the time they took there.
        "reporting": {"min_time_s_per_iteration": 1},
    }

    @classmethod
    def default_algo_class(cls) -> type[Algorithm]:
        """A2C."""
        from eagleray.rllib.algorithms.a2c.a2c import A2C

        return A2C

    def validate(self) -> None:
        """Refuse settings that contradict each other."""
        super().validate()
        if self.opt_type not in ("adam", "rmsprop"):
            raise ValueError(f'`opt_type` must be "adam" or "rmsprop", not {self.opt_type!r}')


__all__ = ["A2CConfig"]
