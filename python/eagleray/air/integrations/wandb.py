"""Experiments at Weights & Biases: `WandbLoggerCallback` for Tune's `callbacks`, `setup_wandb` for a function of one's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.air.integrations._package import needed, numbers_of, of_this_trial
from eagleray.tune.logger import LoggerCallback

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial

__all__ = ["WandbLoggerCallback", "setup_wandb"]

WANDB_ENV_VAR = "WANDB_API_KEY"
WANDB_PROJECT_ENV_VAR = "WANDB_PROJECT_NAME"
WANDB_GROUP_ENV_VAR = "WANDB_GROUP_NAME"

#: Of a result, these tell of the machine and not of the trial, or are there already.
_LEFT_OUT = frozenset(
    {"config", "date", "done", "hostname", "node_ip", "pid", "should_checkpoint", "timestamp", "trial_id"}
)


class _Run:
    """A run in a process of its own: a process has one at a time."""

    def __init__(self, options: dict[str, Any], key: str | None) -> None:
        if key:
            os.environ[WANDB_ENV_VAR] = key
        wandb = needed("wandb", "wandb", "WandbLoggerCallback")
        self._wandb = wandb
        self._run = wandb.init(**options)

    def log(self, values: dict[str, Any], config: dict[str, Any]) -> None:
        if config:
            self._run.config.update(config, allow_val_change=True)
        self._run.log(values)

    def save(self, folder: str, name: str) -> None:
        artifact = self._wandb.Artifact(name=name, type="model")
        artifact.add_dir(folder)
        self._run.log_artifact(artifact)

    def finish(self, code: int) -> None:
        self._run.finish(exit_code=code)


class WandbLoggerCallback(LoggerCallback):
    """Makes each trial a run at Weights & Biases.

    Args:
        project: WANDB_PROJECT_NAME if None.
        group: WANDB_GROUP_NAME, or the name of the experiment, if None.
        api_key_file: has the key in its first line.
        api_key: the key itself. Without either, WANDB_API_KEY or what `wandb login` keeps counts.
        excludes: names of results and of the configuration that are not sent.
        log_config: send the configuration with each result, for configurations that change.
        upload_checkpoints: send checkpoints.
        save_checkpoints: the name of old for that.
        upload_timeout: seconds that a run may take to come to its end.
        video_kwargs: taken and not used: results have no videos here.
        image_kwargs: likewise.
        **kwargs: for `wandb.init`.
    """

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,  # noqa: FBT001, FBT002
        upload_checkpoints: bool = False,  # noqa: FBT001, FBT002
        save_checkpoints: bool = False,  # noqa: FBT001, FBT002
        upload_timeout: int = 1800,
        video_kwargs: dict[str, Any] | None = None,
        image_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.project = project or os.environ.get(WANDB_PROJECT_ENV_VAR)
        self.group = group or os.environ.get(WANDB_GROUP_ENV_VAR)
        self.api_key = _key(api_key, api_key_file)
        self.excludes = _LEFT_OUT | set(excludes or [])
        self.log_config = log_config
        self.upload_checkpoints = upload_checkpoints or save_checkpoints
        self.upload_timeout = upload_timeout
        self.kwargs = kwargs
        self._runs: dict[str, Any] = {}

    def setup(self, *_args: Any, **_info: Any) -> None:
        """The experiment begins: what is missing is told now, and not by each trial."""
        needed("wandb", "wandb", "WandbLoggerCallback")

    def log_trial_start(self, trial: Trial) -> None:
        """A trial starts."""
        import eagleray

        if trial.trial_id in self._runs:
            return
        path = trial.local_path
        options = {
            "id": trial.trial_id,
            "name": str(trial),
            "resume": "allow",
            "reinit": True,
            "project": self.project,
            "group": self.group or (Path(path).parent.name if path else None),
            "dir": path,
            "config": self._without_excluded(trial.config),
            **self.kwargs,
        }
        self._runs[trial.trial_id] = eagleray.remote(num_cpus=0)(_Run).remote(options, self.api_key)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has reported."""
        config = self._without_excluded(result.get("config") or trial.config) if self.log_config else {}
        self._runs[trial.trial_id].log.remote(numbers_of(self._without_excluded(result)), config)

    def log_trial_save(self, trial: Trial) -> None:
        """A checkpoint has been kept."""
        if self.upload_checkpoints and trial.checkpoint is not None:
            self._runs[trial.trial_id].save.remote(trial.checkpoint.path, f"checkpoint_{trial}")

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Nothing more comes of a trial."""
        import eagleray

        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            eagleray.get(run.finish.remote(int(failed)), timeout=self.upload_timeout)

    def _without_excluded(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in self.excludes}


def _key(key: str | None, file: str | None) -> str | None:
    if file:
        if key:
            raise ValueError("Both WandB `api_key_file` and `api_key` set.")
        lines = Path(file).expanduser().read_text().splitlines()
        return lines[0].strip() if lines else None
    return key


def setup_wandb(
    config: dict[str, Any] | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,  # noqa: FBT001, FBT002
    **kwargs: Any,
) -> Any:
    """Begin a run at Weights & Biases in a trial, or in any program, and give it.

    In a trial the run has the trial's id and name. A trial has one process here, so that `rank_zero_only` changes nothing.
    """
    wandb = needed("wandb", "wandb", "setup_wandb")
    key = _key(api_key, api_key_file)
    if key:
        os.environ[WANDB_ENV_VAR] = key
    trial = of_this_trial()
    options: dict[str, Any] = {
        "project": os.environ.get(WANDB_PROJECT_ENV_VAR),
        "group": os.environ.get(WANDB_GROUP_ENV_VAR),
        "config": config or {},
    }
    if trial is not None:
        options.update(id=trial["id"], name=trial["name"], resume="allow", reinit=True)
        options["group"] = options["group"] or trial["experiment"]
    return wandb.init(**{**options, **kwargs})
