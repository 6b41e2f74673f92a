"""Settings of DQN, Rainbow's options among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm


class DQNConfig(AlgorithmConfig):
    """What DQN is told.

    A dictionary gets the defaults of its era: four steps for each update instead of one, and exploration down to 0.02. That is a
    quarter of the work for the same steps, and what programs that say `tune.run("DQN", ...)` were written for.
    """

    ENGINE = "DQN"
    OWN: ClassVar[dict[str, dict[str, Any]]] = {
        "training": {
            "lr": 5e-4,
            "train_batch_size": 32,
            "grad_clip": 40.0,
            "epsilon": [[0, 1.0], [10000, 0.05]],
            "adam_epsilon": 1e-8,
            "target_network_update_freq": 500,
            "num_steps_sampled_before_learning_starts": 1000,
            "store_buffer_in_checkpoints": False,
            "tau": 1.0,
            "num_atoms": 1,
            "v_min": -10.0,
            "v_max": 10.0,
            "noisy": False,
            "sigma0": 0.5,
            "dueling": True,
            "hiddens": [256],
            "double_q": True,
            "n_step": 1,
            "before_learn_on_batch": None,
            "training_intensity": None,
            "td_error_loss_fn": "huber",
            "categorical_distribution_temperature": 1.0,
            "burn_in_len": 0,
            "replay_buffer_config": {
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": 50000,
                "alpha": 0.6,
                "beta": 0.4,
                "eps": 1e-6,
            },
        },
        "env_runners": {
            "rollout_fragment_length": "auto",
            "exploration_config": {"type": "EpsilonGreedy"},
        },
        "evaluation": {"evaluation_config": {"explore": False}},
        "reporting": {"min_sample_timesteps_per_iteration": 1000},
    }
    OLD_DEFAULTS: ClassVar[dict[str, Any]] = {
        "rollout_fragment_length": 4,
        "epsilon": [[0, 1.0], [10000, 0.02]],
    }

    @classmethod
    def default_algo_class(cls) -> type[Algorithm]:
        """DQN."""
        from eagleray.rllib.algorithms.dqn.dqn import DQN

        return DQN

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """As many steps as one target looks ahead, where it is not said."""
        if self.rollout_fragment_length == "auto":
            return max(self.n_step) if isinstance(self.n_step, tuple | list) else int(self.n_step)
        return int(self.rollout_fragment_length)

    def validate(self) -> None:
        """Refuse settings that contradict each other."""
        super().validate()
        check_replay(self)
        if self.td_error_loss_fn != "huber":
            raise ValueError(
                f'`td_error_loss_fn` must be "huber", not {self.td_error_loss_fn!r}: there is no other here'
            )


def check_replay(config: AlgorithmConfig) -> None:
    """Refuses what no replay can be."""
    steps = config.n_step if isinstance(config.n_step, tuple | list) else (config.n_step, config.n_step)
    if len(steps) != 2 or not all(isinstance(step, int) for step in steps) or not 1 <= steps[0] <= steps[1]:
        raise ValueError(f"`n_step` must be a whole number > 0, or a pair of them, not {config.n_step!r}")


def is_prioritized(config: AlgorithmConfig) -> bool:
    """Whether samples with larger errors are drawn more often."""
    return "Prioritized" in str(config.replay_buffer_config.get("type", ""))


__all__ = ["DQNConfig"]
