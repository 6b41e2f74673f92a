"""Makes the engine's plan of what either API was given."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Any

from eagleray.tune import _checks, _resolve
from eagleray.tune._plan import Plan
from eagleray.tune.error import TuneError
from eagleray.tune.registry import with_known_envs
from eagleray.tune.stopper import as_stopper

if TYPE_CHECKING:
    from pathlib import Path

    from eagleray.tune._configs import RunConfig, TuneConfig


def make_plan(
    given: Any,
    param_space: Any,
    tune_config: TuneConfig,
    run_config: RunConfig,
    *,
    resources: Any = None,
    folder: Path | None = None,
    restore_from: str | None = None,
) -> Plan:
    """Checks all that was given, before anything runs."""
    _checks.check_space(param_space)
    _checks.check_tune_config(tune_config)
    _checks.check_run_config(run_config)
    trainable, name, is_class = _resolve.trainable_of(given)
    trainable = with_known_envs(trainable)
    _resolve.check_serializable(trainable, name)
    space = param_space.to_dict() if hasattr(param_space, "to_dict") else dict(param_space or {})
    is_named = folder is not None or bool(run_config.name)
    if folder is None:
        storage = _resolve.storage_of(run_config.storage_path)
        folder = storage / (run_config.name or _resolve.experiment_name(name))
    checkpoint = run_config.checkpoint_config
    if not is_class and (checkpoint.checkpoint_frequency or checkpoint.checkpoint_at_end):
        raise ValueError(
            "'checkpoint_frequency' and 'checkpoint_at_end' cannot be set for a function trainable: it reports its "
            "checkpoints itself, by tune.report(metrics, checkpoint=...)."
        )
    budget = tune_config.time_budget_s
    if isinstance(budget, dt.timedelta):
        budget = budget.total_seconds()
    log_to_file = run_config.log_to_file
    files = None
    if log_to_file:
        files = ("stdout", "stderr") if log_to_file is True else _pair(log_to_file)
    return Plan(
        trainable=trainable,
        trainable_name=name,
        is_class=is_class,
        search_alg=_search_of(tune_config, space),
        scheduler=_scheduler_of(tune_config.scheduler),
        folder=folder,
        is_named=is_named,
        resources=_resolve.resources_of(trainable, resources),
        param_space=space,
        num_samples=tune_config.num_samples,
        metric=tune_config.metric,
        mode=tune_config.mode,
        stopper=as_stopper(run_config.stop),
        callbacks=list(run_config.callbacks or []),
        reporter=run_config.progress_reporter,
        checkpoint=checkpoint,
        failure=run_config.failure_config,
        max_concurrent=_concurrent_of(tune_config.max_concurrent_trials),
        time_budget_s=budget,
        # A function leaves nothing behind but what it did to its module; a class says whether it can be used again.
        reuse=tune_config.reuse_actors or not is_class,
        verbose=_verbosity(run_config.verbose),
        log_to_file=files,
        trial_name=tune_config.trial_name_creator,
        trial_dirname=tune_config.trial_dirname_creator,
        restore_from=restore_from,
    )


def _pair(given: Any) -> tuple[str, str]:
    if isinstance(given, str):
        return given, given
    out, err = given
    return str(out), str(err)


def _concurrent_of(given: int | None) -> int | None:
    if given is not None and given < 0:
        raise ValueError(f"`max_concurrent_trials` must be greater or equal than 0, got {given}.")
    return given or int(os.environ.get("TUNE_MAX_CONCURRENT", "0")) or None


def _verbosity(given: Any) -> int:
    if given is None:
        return int(os.environ.get("AIR_VERBOSITY", "1"))
    return int(getattr(given, "value", given))


def _search_of(config: TuneConfig, space: dict[str, Any]) -> Any:
    from eagleray.tune.search import create_searcher
    from eagleray.tune.search.basic_variant import BasicVariantGenerator
    from eagleray.tune.search.search_algorithm import SearchAlgorithm
    from eagleray.tune.search.search_generator import SearchGenerator
    from eagleray.tune.search.searcher import Searcher

    given = config.search_alg
    _checks.check_search(given)
    if isinstance(given, str):
        given = create_searcher(given, metric=config.metric, mode=config.mode)
    if given is None:
        return BasicVariantGenerator(max_concurrent=config.max_concurrent_trials or 0)
    if isinstance(given, SearchAlgorithm):
        return given
    if isinstance(given, Searcher) or hasattr(given, "suggest"):
        return SearchGenerator(given)
    raise TuneError(f"search_alg must be a Searcher, a SearchAlgorithm or a name, not {given!r}")


def _scheduler_of(given: Any) -> Any:
    if isinstance(given, str):
        from eagleray.tune.schedulers import create_scheduler

        return create_scheduler(given)
    if given is False:
        # What libraries pass for none.
        return None
    _checks.check_scheduler(given)
    return given
