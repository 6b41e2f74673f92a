"""Settings of SAC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
from eagleray.rllib.algorithms.dqn.dqn_config import check_replay

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm


class SACConfig(AlgorithmConfig):
    """What SAC is told."""

    ENGINE = "SAC"
    OWN: ClassVar[dict[str, dict[str, Any]]] = {
        "training": {
            # Three rates instead of one; `lr` sets all of them.
            "lr": None,
            "actor_lr": 3e-5,
            "critic_lr": 3e-4,
            "alpha_lr": 3e-4,
            "train_batch_size": 256,
            "twin_q": True,
            "q_model_config": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
            "policy_model_config": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
            "tau": 5e-3,
            "initial_alpha": 1.0,
            "target_entropy": "auto",
            "n_step": 1,
            "target_network_update_freq": 0,
            "num_steps_sampled_before_learning_starts": 1500,
            "training_intensity": None,
            "store_buffer_in_checkpoints": False,
            "optimization": {},
            "adam_epsilon": 1e-8,
            "replay_buffer_config": {
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": 1_000_000,
                "alpha": 0.6,
                "beta": 0.4,
                "eps": 1e-6,
            },
            "model": {"fcnet_activation": "relu"},
        },
        "env_runners": {
            "rollout_fragment_length": "auto",
            "exploration_config": {"type": "StochasticSampling"},
        },
        "evaluation": {"evaluation_config": {"explore": False}},
        "reporting": {"min_sample_timesteps_per_iteration": 100},
    }
    #: Of the three rates the older configuration had one value, in `optimization`.
    OLD_DEFAULTS: ClassVar[dict[str, Any]] = {"actor_lr": 3e-4, "rollout_fragment_length": 1}

    @classmethod
    def default_algo_class(cls) -> type[Algorithm]:
        """SAC."""
        from eagleray.rllib.algorithms.sac.sac import SAC

        return SAC

    def rates(self) -> dict[str, Any]:
        """The learning rates of actor, critic and temperature."""
        old = {
            "actor": self.optimization.get("actor_learning_rate"),
            "critic": self.optimization.get("critic_learning_rate"),
            "alpha": self.optimization.get("entropy_learning_rate"),
        }
        return {part: self.lr or old[part] or getattr(self, f"{part}_lr") for part in old}

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """As many steps as one target looks ahead, where it is not said."""
        if self.rollout_fragment_length == "auto":
            return max(self.n_step) if isinstance(self.n_step, tuple | list) else int(self.n_step)
        return int(self.rollout_fragment_length)

    def validate(self) -> None:
        """Refuse settings that contradict each other."""
        super().validate()
        check_replay(self)
        entropy = self.target_entropy
        if entropy not in (None, "auto") and not isinstance(entropy, int | float):
            raise ValueError(f'`target_entropy` must be a number or "auto", not {entropy!r}')


__all__ = ["SACConfig"]
