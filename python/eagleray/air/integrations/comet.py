"""Experiments at Comet: `CometLoggerCallback` for Tune's `callbacks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray.air.integrations._package import needed, numbers_of
from eagleray.tune.logger import LoggerCallback

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial

__all__ = ["CometLoggerCallback"]

#: Facts about where a trial runs: noted once, and not as curves.
_FACTS = ("experiment_id", "hostname", "node_ip", "pid", "trial_id")


class CometLoggerCallback(LoggerCallback):
    """Makes each trial an experiment at Comet.

    Args:
        online: send it at once; otherwise it is written to a file that `comet upload` sends.
        tags: of every trial.
        save_checkpoints: send checkpoints.
        **experiment_kwargs: for Comet's `Experiment` or `OfflineExperiment`.
    """

    def __init__(
        self,
        online: bool = True,  # noqa: FBT001, FBT002
        tags: list[str] | None = None,
        save_checkpoints: bool = False,  # noqa: FBT001, FBT002
        **experiment_kwargs: Any,
    ) -> None:
        self.online = online
        self.tags = list(tags or [])
        self.save_checkpoints = save_checkpoints
        self.experiment_kwargs = experiment_kwargs
        self._experiments: dict[str, Any] = {}

    def setup(self, *_args: Any, **_info: Any) -> None:
        """The experiment begins: what is missing is told now, and not by each trial."""
        needed("comet_ml", "comet-ml", "CometLoggerCallback")

    def log_trial_start(self, trial: Trial) -> None:
        """A trial starts."""
        if trial.trial_id in self._experiments:
            return
        comet = needed("comet_ml", "comet-ml", "CometLoggerCallback")
        kind = comet.Experiment if self.online else comet.OfflineExperiment
        experiment = kind(**self.experiment_kwargs)
        if self.online:
            # Several trials run side by side, and none of them is the one that the program means.
            comet.set_global_experiment(None)
        experiment.set_name(str(trial))
        experiment.add_tags(self.tags)
        experiment.log_other("Created from", "Ray")
        from eagleray.tune.utils import flatten_dict

        experiment.log_parameters(flatten_dict(trial.config))
        self._experiments[trial.trial_id] = experiment

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has reported."""
        experiment = self._experiments[trial.trial_id]
        step = result.get("training_iteration", iteration)
        values = {name: value for name, value in result.items() if name not in (*_FACTS, "config", "date", "done")}
        experiment.log_metrics(numbers_of(values), step=step)
        experiment.log_others({name: result[name] for name in _FACTS if name in result})

    def log_trial_save(self, trial: Trial) -> None:
        """A checkpoint has been kept."""
        if self.save_checkpoints and trial.checkpoint is not None:
            comet = needed("comet_ml", "comet-ml", "CometLoggerCallback")
            artifact = comet.Artifact(f"checkpoint_{trial}", "model")
            artifact.add(trial.checkpoint.path)
            self._experiments[trial.trial_id].log_artifact(artifact)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Nothing more comes of a trial."""
        experiment = self._experiments.pop(trial.trial_id, None)
        if experiment is not None:
            experiment.end()
