"""The older API: `tune.run(trainable, config=...)`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from eagleray.tune import _replay, _resolve, _start
from eagleray.tune._configs import CheckpointConfig, FailureConfig, RunConfig, TuneConfig
from eagleray.tune._files import JOURNAL
from eagleray.tune._make_plan import make_plan
from eagleray.tune.analysis import ExperimentAnalysis
from eagleray.tune.error import TuneError
from eagleray.tune.experiment.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: Any = None,
    config: dict[str, Any] | None = None,
    resources_per_trial: Any = None,
    num_samples: int = 1,
    storage_path: str | None = None,
    local_dir: str | None = None,
    search_alg: Any = None,
    scheduler: Any = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    checkpoint_config: CheckpointConfig | None = None,
    verbose: int | None = None,
    progress_reporter: Any = None,
    log_to_file: bool | str | tuple[str, str] = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None,
    callbacks: list[Any] | None = None,
    loggers: list[Any] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: str | None = None,
    resume: Any = None,
    resume_config: Any = None,
    reuse_actors: bool | None = None,
    raise_on_failed_trial: bool = True,
    max_concurrent_trials: int | None = None,
    sync_config: Any = None,
    chdir_to_trial_dir: bool | str = "DEPRECATED",
    **old: Any,
) -> ExperimentAnalysis:
    """Runs trials of a trainable over a space of configurations.

    Args:
        run_or_experiment: a function, a subclass of `tune.Trainable`, a registered name, or an `Experiment`.
        name: of the experiment, and of its folder.
        metric: what is optimised.
        mode: "min" or "max".
        stop: what ends a trial: `{"metric": value}`, a function of `(trial_id, result)`, or a `Stopper`.
        time_budget_s: after so many seconds nothing new starts and what runs is stopped.
        config: what is searched.
        resources_per_trial: what each trial needs, as `{"cpu": 1, "gpu": 0}`.
        num_samples: how often the space is sampled; -1 for no end.
        storage_path: where the experiment's folder lies; `~/ray_results` by default.
        local_dir: the older name of `storage_path`.
        search_alg: who proposes configurations; random and grid search by default.
        scheduler: who stops, pauses and changes trials while they run; nobody by default.
        keep_checkpoints_num: how many checkpoints of a trial are kept; all by default.
        checkpoint_score_attr: which are kept: those with the most of this metric, or with "min-" before it the least.
        checkpoint_freq: a class trainable is saved after so many steps; 0 for never.
        checkpoint_at_end: whether a class trainable is saved when it ends.
        checkpoint_config: the same four as one object, in place of them.
        verbose: how much is printed, from 0 to 3.
        progress_reporter: who prints it.
        log_to_file: whether what a trial prints goes to files in its folder, or to which.
        trial_name_creator: makes a trial's name of the trial.
        trial_dirname_creator: makes the name of a trial's folder of the trial.
        callbacks: are told of all that happens.
        loggers: classes of older programs that write a trial's files.
        max_failures: how often a trial that fails is tried again; -1 for always.
        fail_fast: whether the first failure ends the experiment; "raise" to see the error here.
        restore: the checkpoint that all trials begin from.
        resume: True (or "AUTO") to go on with the experiment of this name; "ERRORED_ONLY", "AUTO+ERRORED" and so on for failed trials.
        resume_config: taken for Ray's sake; `resume` says it.
        reuse_actors: whether a class trainable with `reset_config` goes on as the next trial.
        raise_on_failed_trial: whether a trial that failed raises here, when all are over.
        max_concurrent_trials: how many run at a time; as many as there is room for by default.
        sync_config: taken for Ray's sake; files lie on this machine.
        chdir_to_trial_dir: taken for Ray's sake; `RAY_CHDIR_TO_TRIAL_DIR=0` keeps a trial where the driver is.
        **old: arguments of earlier versions: some change nothing, others raise.

    Returns:
        What came of all trials.
    """
    from eagleray.tune.experiment.experiment import Experiment

    for key in old:
        if key not in OLD_ARGUMENTS:
            raise TypeError(f"run() got an unexpected keyword argument {key!r}")
    if isinstance(run_or_experiment, Experiment):
        spec = dict(run_or_experiment.spec)
        return run(
            spec.pop("run"), name=name or run_or_experiment.name, verbose=verbose, **{**spec, **_given(locals())}
        )
    score = checkpoint_score_attr
    order = "max"
    if score and score.startswith("min-"):
        score, order = score[4:], "min"
    if checkpoint_config is None:
        checkpoint_config = CheckpointConfig(
            num_to_keep=keep_checkpoints_num,
            checkpoint_score_attribute=score,
            checkpoint_score_order=order,
            checkpoint_frequency=checkpoint_freq,
            checkpoint_at_end=checkpoint_at_end,
        )
    tune_config = TuneConfig(
        metric=metric,
        mode=mode,
        search_alg=search_alg,
        scheduler=scheduler,
        num_samples=num_samples,
        max_concurrent_trials=max_concurrent_trials,
        time_budget_s=time_budget_s,
        reuse_actors=bool(reuse_actors),
        trial_name_creator=trial_name_creator,
        trial_dirname_creator=trial_dirname_creator,
    )
    if loggers:
        from eagleray.tune.logger import LegacyLoggerCallback

        callbacks = [*(callbacks or []), LegacyLoggerCallback(loggers)]
    run_config = RunConfig(
        name=name,
        storage_path=storage_path or local_dir,
        stop=stop,
        checkpoint_config=checkpoint_config,
        failure_config=FailureConfig(max_failures=max_failures, fail_fast=fail_fast),
        callbacks=callbacks,
        progress_reporter=progress_reporter,
        verbose=verbose,
        log_to_file=log_to_file,
    )
    plan = make_plan(
        run_or_experiment, config, tune_config, run_config, resources=resources_per_trial, restore_from=restore
    )
    read = _resume_of(resume, plan.folder / JOURNAL)
    if read is not None and search_alg is None:
        plan.search_alg = _replay.same_search(read, max_concurrent_trials)
    trials = _start.run(plan, read)
    failed = [trial for trial in trials if trial.status == Trial.ERROR]
    if failed and raise_on_failed_trial:
        raise TuneError("Trials did not complete", failed)
    return ExperimentAnalysis(plan.folder, trials, metric, mode)


#: Arguments of earlier versions that change nothing here.
OLD_ARGUMENTS = frozenset(
    {
        "queue_trials", "export_formats", "server_port", "with_server", "ray_auto_init", "sync_to_driver", "sync_on_checkpoint",
        "global_checkpoint_period", "trial_executor", "run_errored_only", "_remote", "_experiment_checkpoint_dir",
        "upload_dir", "sync_function", "sync_to_cloud", "trial_name_format",
    }
)  # fmt: skip


#: What `resume` is made of, with "+" between two. Files lie on this machine, so that some of them mean the same.
_RESUME = frozenset(
    {
        "TRUE", "AUTO", "LOCAL", "REMOTE", "PROMPT", "UNFINISHED", "RESUME", "ERRORED", "ERRORED_ONLY", "RESTART_ERRORED",
        "RESTART_ERRORED_ONLY",
    }
)  # fmt: skip


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    names = (
        "metric",
        "mode",
        "search_alg",
        "scheduler",
        "callbacks",
        "progress_reporter",
        "raise_on_failed_trial",
        "resume",
    )
    return {name: arguments[name] for name in names if arguments[name] is not None}


def _resume_of(resume: Any, journal: Any) -> _replay.Resume | None:
    if not resume:
        return None
    words = str(resume).upper()
    if not set(words.split("+")) <= _RESUME:
        raise ValueError(f"resume must be True, 'AUTO', 'ERRORED_ONLY', 'AUTO+ERRORED' or the like; got {resume!r}")
    if not journal.exists():
        if words.startswith("AUTO"):
            return None
        raise ValueError(f"Called resume={resume!r}, but there is no experiment in {journal.parent}")
    read = _replay.read(journal.parent)
    read.errored = "ERRORED" in words and "RESTART" not in words
    read.restart_errored = "RESTART_ERRORED" in words
    read.unfinished = words != "ERRORED_ONLY"
    return read


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    verbose: int | None = None,
    progress_reporter: Any = None,
    resume: Any = None,
    reuse_actors: bool | None = None,  # noqa: FBT001
    raise_on_failed_trial: bool = True,  # noqa: FBT001, FBT002
    concurrent: bool = True,  # noqa: FBT001, FBT002
    callbacks: list[Any] | None = None,
    **_: Any,
) -> list[Trial]:
    """Runs experiments that are given as dictionaries, one after the other. Returns all their trials."""
    from eagleray.tune.experiment.experiment import as_experiments

    trials: list[Trial] = []
    for experiment in as_experiments(experiments):
        analysis = run(
            experiment,
            scheduler=scheduler,
            verbose=verbose,
            progress_reporter=progress_reporter,
            resume=resume,
            reuse_actors=reuse_actors,
            raise_on_failed_trial=raise_on_failed_trial,
            callbacks=callbacks,
        )
        trials += analysis.trials
    return trials


def default_storage() -> str:
    """Where experiments go, if it is not said."""
    return os.fspath(_resolve.storage_of(None))
