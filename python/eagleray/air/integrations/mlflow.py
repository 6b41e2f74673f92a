"""Experiments that MLflow keeps: `MLflowLoggerCallback` for Tune's `callbacks`, `setup_mlflow` for a function of one's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from eagleray.air.integrations._package import needed, numbers_of, of_this_trial
from eagleray.tune.logger import LoggerCallback

if TYPE_CHECKING:
    from eagleray.tune.experiment.trial import Trial

__all__ = ["MLflowLoggerCallback", "setup_mlflow"]


class MLflowLoggerCallback(LoggerCallback):
    """Makes each trial a run of an MLflow experiment: its configuration, its results, and if wanted its files.

    Args:
        tracking_uri: where MLflow keeps its records; its own default if None.
        registry_uri: where it keeps models.
        experiment_name: made if there is none of this name. Without one, MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID decide.
        tags: of every run.
        tracking_token: for a server that asks for one.
        save_artifact: keep a trial's folder with its run.
        log_params_on_trial_end: note the configuration when a trial ends instead of when it starts.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        self.tracking_uri = tracking_uri
        self.registry_uri = registry_uri
        self.experiment_name = experiment_name
        self.tags = tags
        self.tracking_token = tracking_token
        self.should_save_artifact = save_artifact
        self.log_params_on_trial_end = log_params_on_trial_end
        self._client: Any = None
        self._experiment = ""
        self._runs: dict[str, str] = {}

    def setup(self, *_args: Any, **_info: Any) -> None:
        """The experiment begins."""
        mlflow = needed("mlflow", "mlflow", "MLflowLoggerCallback")
        if self.tracking_token:
            os.environ["MLFLOW_TRACKING_TOKEN"] = self.tracking_token
        self._client = mlflow.tracking.MlflowClient(self.tracking_uri, self.registry_uri)
        self._experiment = _experiment_id(self._client, self.experiment_name, None, may_make=True)

    def log_trial_start(self, trial: Trial) -> None:
        """A trial starts: a run of its own, also if the trial goes on after a failure."""
        if trial.trial_id not in self._runs:
            tags = {**(self.tags or {}), "trial_name": str(trial), "mlflow.runName": str(trial)}
            run = self._client.create_run(self._experiment, tags={name: str(value) for name, value in tags.items()})
            self._runs[trial.trial_id] = run.info.run_id
            if not self.log_params_on_trial_end:
                self._log_params(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has reported."""
        step = result.get("timesteps_total") or result.get("training_iteration") or iteration
        for name, value in numbers_of(result).items():
            self._client.log_metric(self._runs[trial.trial_id], _key(name), value, step=int(step))

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: FBT001, FBT002
        """Nothing more comes of a trial."""
        run = self._runs[trial.trial_id]
        if self.log_params_on_trial_end:
            self._log_params(trial)
        if self.should_save_artifact and trial.local_path:
            self._client.log_artifacts(run, local_dir=trial.local_path)
        self._client.set_terminated(run, status="FAILED" if failed else "FINISHED")

    def _log_params(self, trial: Trial) -> None:
        from eagleray.tune.utils import flatten_dict

        for name, value in flatten_dict(trial.config).items():
            self._client.log_param(self._runs[trial.trial_id], _key(name), value)


def _key(name: str) -> str:
    """MLflow takes letters, digits, `_`, `-`, `.`, ` `, `:` and `/` in names."""
    return "".join(each if each.isalnum() or each in "_-. :/" else "_" for each in name)


def _experiment_id(
    client: Any, name: str | None, number: str | None, *, may_make: bool, place: str | None = None
) -> str:
    number = number or (None if name else os.environ.get("MLFLOW_EXPERIMENT_ID"))
    if number:
        return str(number)
    name = name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    if not may_make:
        raise ValueError(
            f"MLflow has no experiment {name!r}: make it, or say create_experiment_if_not_exists=True, or give another name or id"
        )
    return str(client.create_experiment(name, artifact_location=place))


def setup_mlflow(
    config: dict[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,  # noqa: FBT001, FBT002
    tags: dict[str, Any] | None = None,
    rank_zero_only: bool = True,  # noqa: FBT001, FBT002
) -> Any:
    """Begin a run of MLflow's in a trial, or in any program, and note the configuration. Gives the module `mlflow`.

    In a trial the run has the trial's name. A trial has one process here, so that `rank_zero_only` changes nothing.
    """
    mlflow = needed("mlflow", "mlflow", "setup_mlflow")
    trial = of_this_trial()
    if tracking_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
    if tracking_uri:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri:
        mlflow.set_registry_uri(registry_uri)
    if experiment_name is None and experiment_id is None and trial is not None:
        experiment_name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or trial["experiment"]
    number = _experiment_id(
        mlflow.tracking.MlflowClient(),
        experiment_name,
        experiment_id,
        may_make=create_experiment_if_not_exists,
        place=artifact_location,
    )
    mlflow.set_experiment(experiment_id=number)
    told = {**(tags or {}), **({"trial_id": trial["id"], "trial_name": trial["name"]} if trial else {})}
    mlflow.start_run(run_name=run_name or (trial["name"] if trial else None), tags=told or None)
    if config:
        from eagleray.tune.utils import flatten_dict

        mlflow.log_params({_key(name): value for name, value in flatten_dict(config).items()})
    return mlflow
