"""Refuses arguments of the wrong kind before anything runs, by the name under which the user gave them."""

from __future__ import annotations

import datetime as dt
import inspect
import numbers
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eagleray.tune.callback import Callback

if TYPE_CHECKING:
    from eagleray.tune._configs import RunConfig, TuneConfig


def refuse(name: str, given: Any, wanted: str) -> None:
    """An argument is not what it has to be."""
    hint = ""
    if inspect.isclass(given):
        hint = f", of which {given.__name__} is the class: {given.__name__}(...)"
    raise TypeError(f"{name} must be {wanted}{hint}; got {given!r}")


def check_kind(name: str, given: Any, kind: Any, wanted: str) -> None:
    """None, or of this class."""
    if given is not None and not isinstance(given, kind):
        refuse(name, given, wanted)


def check_whole(name: str, given: Any, wanted: str = "a whole number") -> None:
    """A whole number of any kind, numpy's too."""
    if not isinstance(given, numbers.Integral):
        refuse(name, given, wanted)


def check_space(given: Any) -> None:
    """What is searched."""
    if given is not None and not isinstance(given, Mapping) and not hasattr(given, "to_dict"):
        refuse("param_space", given, 'a dictionary of parameters, as {"lr": tune.uniform(0, 1)}')


def check_tune_config(config: TuneConfig) -> None:
    """What is optimised, by whom, how often."""
    check_kind("metric", config.metric, str, "the name of what trials report")
    check_whole("num_samples", config.num_samples)
    if config.num_samples < -1:
        raise ValueError(f"num_samples must be 0 or more, or -1 for no end; got {config.num_samples}")
    if config.max_concurrent_trials is not None:
        check_whole("max_concurrent_trials", config.max_concurrent_trials)
    seconds = numbers.Real | dt.timedelta
    check_kind("time_budget_s", config.time_budget_s, seconds, "a number of seconds or a datetime.timedelta")
    for name in ("trial_name_creator", "trial_dirname_creator"):
        given = getattr(config, name)
        if given is not None and not callable(given):
            refuse(name, given, "a function of the trial")


def check_run_config(config: RunConfig) -> None:
    """Where files go, what is kept, who is told."""
    from eagleray.tune._configs import CheckpointConfig, FailureConfig

    for name in ("name", "storage_path"):
        check_kind(name, getattr(config, name), str | os.PathLike, "a string")
    for name, kind in (("checkpoint_config", CheckpointConfig), ("failure_config", FailureConfig)):
        check_kind(name, getattr(config, name), kind, f"a {kind.__name__}")
    callbacks: Any = config.callbacks or []
    if not isinstance(callbacks, list | tuple):
        refuse("callbacks", callbacks, "a list of tune.Callback")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            refuse("what is in callbacks", callback, "an instance of tune.Callback")
    check_verbose(config.verbose)
    reporter: Any = config.progress_reporter
    if reporter is not None and (inspect.isclass(reporter) or not hasattr(reporter, "should_report")):
        refuse("progress_reporter", reporter, "an instance of tune.ProgressReporter")
    check_log_to_file(config.log_to_file)


def check_verbose(given: Any) -> None:
    """How much is printed."""
    if given is not None and not isinstance(getattr(given, "value", given), numbers.Integral):
        refuse("verbose", given, "a number from 0 to 3")


def check_log_to_file(given: Any) -> None:
    """Where a trial's output goes."""
    is_pair = isinstance(given, list | tuple) and len(given) == 2 and all(isinstance(one, str) for one in given)
    if given is not None and not isinstance(given, bool | str) and not is_pair:
        refuse("log_to_file", given, "True, the name of a file, or the names of two: stdout and stderr")


def check_scheduler(given: Any) -> None:
    """Who stops trials."""
    if given is not None and (inspect.isclass(given) or not hasattr(given, "on_trial_result")):
        refuse("scheduler", given, "an instance of a TrialScheduler, or a name such as 'asha'")


def check_search(given: Any) -> None:
    """Who proposes configurations."""
    if inspect.isclass(given):
        refuse("search_alg", given, "an instance of a Searcher, or a name such as 'tpe'")
