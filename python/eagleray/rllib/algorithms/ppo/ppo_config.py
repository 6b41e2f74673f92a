"""Settings of PPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from eagleray.rllib.algorithms import _names
from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig

if TYPE_CHECKING:
    from typing import Self

    from eagleray.rllib.algorithms.algorithm import Algorithm

#: Settings that say how much one result stands for.
_LENGTHS = ("min_sample_timesteps_per_iteration", "min_train_timesteps_per_iteration", "min_time_s_per_iteration")

#: Batches that a result stands for where an older program says nothing of either.
_RESULT_BATCHES = 3

_SCALINGS = ("batch", "minibatch")


class PPOConfig(AlgorithmConfig):
    """What PPO is told. Its defaults have been the same in both eras, but for one thing that a dictionary means here.

    A dictionary that leaves the batch as it is gets a result every three batches. Thresholds of Tune end a trial as soon as a metric is at
    least that large, and the first batch is what chance does: `stop={"episode_len_mean": 6}` on a short corridor, which its
    examples were fond of, would always end with a policy that was never used. On that corridor, over six seeds, the first three batches
    have mean lengths of 24 to 32, 12 to 14 and 7 to 8.
    """

    ENGINE = "PPO"
    OWN: ClassVar[dict[str, dict[str, Any]]] = {
        "training": {
            "lr": 5e-5,
            "train_batch_size": 4000,
            "use_critic": True,
            "use_gae": True,
            "num_epochs": 30,
            "minibatch_size": 128,
            "shuffle_batch_per_epoch": True,
            "lambda_": 1.0,
            "use_kl_loss": True,
            "kl_coeff": 0.2,
            "kl_target": 0.01,
            "vf_loss_coeff": 1.0,
            "entropy_coeff": 0.0,
            # A number, or points of a schedule as `lr` may be.
            "clip_param": 0.3,
            "vf_clip_param": 10.0,
            # Of Adam; RLlib leaves it to torch.
            "adam_epsilon": 1e-8,
            # Among which rows advantages get mean zero and deviation one: those of the "batch", as in RLlib, or of each "minibatch".
            "advantage_scaling": "batch",
            "model": {"vf_share_layers": False},
        },
        "env_runners": {
            "num_env_runners": 2,
            "rollout_fragment_length": "auto",
            "exploration_config": {"type": "StochasticSampling"},
        },
    }

    @classmethod
    def default_algo_class(cls) -> type[Algorithm]:
        """PPO."""
        from eagleray.rllib.algorithms.ppo.ppo import PPO

        return PPO

    @classmethod
    def from_old_dict(cls, config_dict: dict[str, Any]) -> Self:
        """Make a configuration of what `tune.run` and trainers are given."""
        made = super().from_old_dict(config_dict)
        said = _names.modern(config_dict)
        if not {"train_batch_size", "train_batch_size_per_learner", *_LENGTHS} & said.keys():
            made.min_sample_timesteps_per_iteration = _RESULT_BATCHES * made.total_train_batch_size
        return made

    def validate(self) -> None:
        """Refuse settings that contradict each other."""
        super().validate()
        if self.minibatch_size is not None and self.minibatch_size > self.batch_size_per_learner:
            raise ValueError(
                f"`minibatch_size` ({self.minibatch_size}) must be <= `train_batch_size_per_learner` ({self.batch_size_per_learner})"
            )
        if self.advantage_scaling not in _SCALINGS:
            raise ValueError(f"`advantage_scaling` must be one of {list(_SCALINGS)}, not {self.advantage_scaling!r}")
        if self.batch_mode == "truncate_episodes" and not self.use_gae:
            raise ValueError("without `use_gae` episodes cannot be cut: set batch_mode='complete_episodes'")


__all__ = ["PPOConfig"]
