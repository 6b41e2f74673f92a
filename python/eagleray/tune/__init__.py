"""Hyper-parameter search: `Tuner(trainable, param_space=...).fit()`, or `tune.run(trainable, config=...)` as older programs do."""

from eagleray.tune import track
from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune._configs import CheckpointConfig, FailureConfig, RunConfig, SyncConfig, TuneConfig
from eagleray.tune._session import (
    TuneContext,
    checkpoint_dir,
    get_checkpoint,
    get_context,
    get_trial_dir,
    get_trial_id,
    get_trial_name,
    get_trial_resources,
    is_session_enabled,
    report,
)
from eagleray.tune.analysis import Analysis, ExperimentAnalysis
from eagleray.tune.callback import Callback
from eagleray.tune.error import TuneError
from eagleray.tune.execution.placement_groups import PlacementGroupFactory
from eagleray.tune.experiment import Experiment, Trial
from eagleray.tune.progress_reporter import CLIReporter, JupyterNotebookReporter, ProgressReporter
from eagleray.tune.registry import register_env, register_trainable
from eagleray.tune.result import Result
from eagleray.tune.result_grid import ResultGrid
from eagleray.tune.schedulers import create_scheduler
from eagleray.tune.search import create_searcher
from eagleray.tune.search.sample import (
    choice,
    grid_search,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from eagleray.tune.stopper import Stopper
from eagleray.tune.trainable import Trainable, with_parameters, with_resources
from eagleray.tune.tune import run, run_experiments
from eagleray.tune.tuner import Tuner


def __getattr__(name: str) -> object:
    # Pictures need matplotlib: they are loaded when they are asked for.
    if name == "plots":
        import importlib

        return importlib.import_module("eagleray.tune.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Analysis",
    "CLIReporter",
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "Experiment",
    "ExperimentAnalysis",
    "FailureConfig",
    "JupyterNotebookReporter",
    "PlacementGroupFactory",
    "ProgressReporter",
    "Result",
    "ResultGrid",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "Trainable",
    "Trial",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "checkpoint_dir",
    "choice",
    "create_scheduler",
    "create_searcher",
    "get_checkpoint",
    "get_context",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "grid_search",
    "is_session_enabled",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_env",
    "register_trainable",
    "report",
    "run",
    "run_experiments",
    "sample_from",
    "track",
    "uniform",
    "with_parameters",
    "with_resources",
]
