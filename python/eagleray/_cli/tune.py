"""`eagleray tune ls|show|plot DIR`: experiments as their folders tell them."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.tune._files import ExperimentFiles, TrialFiles

_KINDS = ("curves", "parallel", "importance", "history")
#: What every result carries and nobody tunes.
_ROUTINE = {
    "config",
    "date",
    "done",
    "experiment_id",
    "experiment_tag",
    "hostname",
    "iterations_since_restore",
    "node_ip",
    "pid",
    "should_checkpoint",
    "checkpoint_dir_name",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timestamp",
    "timesteps_since_restore",
    "training_iteration",
    "trial_id",
    "warmup_time",
}
_METRICS_MAX = 6
_CELL_MAX = 40


def add_parser(commands: Any) -> None:
    """Add the commands to those of `eagleray`."""
    tune = commands.add_parser("tune", help="look at experiments (trials, results, plots) and repair them")
    actions = tune.add_subparsers(title="commands", metavar="COMMAND", required=True)

    ls = actions.add_parser("ls", help="list the trials of an experiment")
    ls.add_argument("folder", metavar="DIR", help="the experiment's folder; one that Ray wrote will do")
    ls.add_argument("--sort", metavar="KEY", help="sort by this; -KEY for the largest first: --sort=-accuracy")
    ls.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="TEST",
        help="only trials with, say, 'loss<0.3'; may be repeated",
    )
    ls.add_argument("--columns", metavar="KEYS", help="these columns, with commas between: trial,status,lr,loss")
    ls.add_argument("--limit", type=int, metavar="N", help="at most so many trials")
    ls.add_argument("--json", action="store_true", help="as JSON, a list of trials")
    ls.set_defaults(run=_ls)

    show = actions.add_parser("show", help="sum an experiment up, or one of its trials")
    show.add_argument("folder", metavar="DIR")
    show.add_argument("trial", metavar="TRIAL", nargs="?", help="its number, its id or how its name begins")
    show.add_argument("--metric", help="what is optimised; the experiment's if not given")
    show.add_argument("--mode", choices=("min", "max"))
    show.add_argument("--json", action="store_true", help="as JSON")
    show.set_defaults(run=_show)

    plot = actions.add_parser("plot", help="draw an experiment; needs matplotlib")
    plot.add_argument("folder", metavar="DIR")
    plot.add_argument("--kind", choices=_KINDS, default="history")
    plot.add_argument("--metric", help="what is drawn; what the experiment optimises if not given")
    plot.add_argument("--mode", choices=("min", "max"))
    plot.add_argument("--out", required=True, metavar="FILE", help="a .png or .svg file")
    plot.set_defaults(run=_plot)

    repair = actions.add_parser("repair", help="cut a damaged journal at the damage, keeping a copy")
    repair.add_argument("folder", metavar="DIR", help="the experiment's folder")
    repair.set_defaults(run=_repair)


def _read(folder: str, *, history: bool = False) -> ExperimentFiles:
    from eagleray.tune import _files
    from eagleray.tune.error import TuneError

    try:
        return _files.read(folder, history=history)
    except (OSError, TuneError) as error:
        raise ValueError(str(error)) from error


# Lists.


def _ls(options: Any) -> int:
    experiment = _read(options.folder)
    tests = [_test(text) for text in options.filter]
    trials = [trial for trial in experiment.trials if all(test(trial) for test in tests)]
    if options.sort:
        key = options.sort.removeprefix("-")
        trials = _sorted(trials, key, is_descending=options.sort.startswith("-"))
    passed = f"; {len(trials)} pass the filter" if tests else ""
    left_out = 0
    if options.limit is not None and len(trials) > options.limit:
        left_out = len(trials) - options.limit
        trials = trials[: options.limit]
    if options.json:
        print(json.dumps([_plain(trial) for trial in trials], indent=2, default=str))
        return 0
    columns = options.columns.split(",") if options.columns else _columns(experiment)
    rows = [[_cell(trial.value(column)) for column in columns] for trial in trials]
    _print_table(columns, rows)
    shown = Counter(trial.status for trial in experiment.trials)
    told = ", ".join(f"{count} {status}" for status, count in sorted(shown.items()))
    print(f"{len(experiment.trials)} trials: {told}{passed}" + (f"; {left_out} not shown" if left_out else ""))
    if experiment.trouble:
        print(f"Note: {experiment.trouble}.")
    return 0


def _columns(experiment: ExperimentFiles) -> list[str]:
    params = dict.fromkeys(f"{key}" for trial in experiment.trials for key in trial.params)
    metrics = [experiment.metric] if experiment.metric else []
    metrics += [key for key in _metrics(experiment) if key not in metrics and key not in params]
    return ["number", "trial", "status", *params, *metrics[:_METRICS_MAX], "iterations", "time"]


def _metrics(experiment: ExperimentFiles) -> list[str]:
    """What trials report of their own, numbers only, in the order in which they report it."""
    from eagleray.tune._files import flat

    found: dict[str, None] = {}
    for trial in experiment.trials[:200]:
        own = {key: value for key, value in trial.last.items() if key not in _ROUTINE}
        found.update(dict.fromkeys(key for key, value in flat(own).items() if _is_number(value)))
    return list(found)


def _sorted(trials: list[TrialFiles], key: str, *, is_descending: bool) -> list[TrialFiles]:
    """Those without a value come last, whichever way round."""
    if trials and all(trial.value(key) is None for trial in trials):
        raise ValueError(f"no trial has {key!r}")
    known = [trial for trial in trials if not _is_missing(trial.value(key))]
    is_numeric = all(_is_number(trial.value(key)) for trial in known)
    known.sort(key=lambda trial: trial.value(key) if is_numeric else str(trial.value(key)), reverse=is_descending)
    return known + [trial for trial in trials if _is_missing(trial.value(key))]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "<=": lambda left, right: bool(left <= right),
    ">=": lambda left, right: bool(left >= right),
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "=": lambda left, right: bool(left == right),
    "<": lambda left, right: bool(left < right),
    ">": lambda left, right: bool(left > right),
}


def _test(text: str) -> Callable[[TrialFiles], bool]:
    found = re.fullmatch(r"\s*([^<>=!]+?)\s*(<=|>=|==|!=|=|<|>)\s*(.+?)\s*", text)
    if found is None:
        raise ValueError(f"{text!r} is not a test such as 'loss<0.3' or 'status=ERROR'")
    key, compare, wanted = found[1], _COMPARED[found[2]], found[3].strip("'\"")

    def is_passed(trial: TrialFiles) -> bool:
        value = trial.value(key)
        if value is None:
            return False
        if _is_number(value):
            try:
                return compare(value, float(wanted))
            except ValueError:
                return found[2] == "!="
        return compare(str(value), wanted)

    return is_passed


def _plain(trial: TrialFiles) -> dict[str, Any]:
    return {
        "number": trial.number,
        "id": trial.trial_id,
        "trial": trial.name,
        "status": trial.status,
        "iterations": trial.iterations,
        "time": trial.time_s,
        "params": trial.params,
        "config": trial.config,
        "last_result": trial.last,
        "checkpoints": trial.checkpoints,
        "error": trial.error,
        "folder": None if trial.folder is None else str(trial.folder),
    }


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value).replace("\n", " ")
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"


def _print_table(columns: list[str], rows: list[list[str]]) -> None:
    titles = [column if len(column) <= _CELL_MAX else "…" + column[1 - _CELL_MAX :] for column in columns]
    widths = [max(len(title), *(len(row[place]) for row in rows), 0) for place, title in enumerate(titles)]
    # In a terminal a line is cut rather than wrapped; elsewhere nothing is lost.
    limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    is_right = [all(_reads_as_number(row[place]) for row in rows) for place in range(len(columns))]
    for row in [titles, ["-" * width for width in widths], *rows]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_right, strict=True)
        ]
        print("  ".join(cells).rstrip()[:limit])


def _reads_as_number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


# One experiment, one trial.


def _show(options: Any) -> int:
    experiment = _read(options.folder)
    if options.trial is None:
        return _show_experiment(experiment, options)
    trial = _find(experiment, options.trial)
    if options.json:
        print(json.dumps(_plain(trial), indent=2, default=str))
        return 0
    _show_trial(trial)
    return 0


def _show_experiment(experiment: ExperimentFiles, options: Any) -> int:
    metric, mode = options.metric or experiment.metric, options.mode or experiment.mode
    statuses = Counter(trial.status for trial in experiment.trials)
    best = _best(experiment, metric, mode)
    if options.json:
        summary = {
            "folder": str(experiment.folder),
            "about": experiment.about,
            "statuses": dict(statuses),
            "results": sum(trial.results_count for trial in experiment.trials),
            "writer_pid": experiment.writer_pid,
            "best": None if best is None else _plain(best),
            "trouble": experiment.trouble,
        }
        print(json.dumps(summary, indent=2, default=str))
        return 0
    print(f"Experiment  {experiment.about.get('name', experiment.folder.name)}")
    print(f"Folder      {experiment.folder}")
    if experiment.about.get("trainable"):
        print(f"Trainable   {experiment.about['trainable']}")
    if metric:
        print(f"Optimises   {metric}" + (f" ({mode})" if mode else ""))
    print(f"State       {_state(experiment, statuses)}")
    print(f"Trials      {len(experiment.trials)}: " + ", ".join(f"{n} {name}" for name, n in sorted(statuses.items())))
    print(f"Results     {sum(trial.results_count for trial in experiment.trials)}")
    times = [trial.time_s for trial in experiment.trials if trial.time_s is not None]
    if times:
        print(f"Time        {sum(times):.1f} s in all trials, {max(times):.1f} s in the longest")
    if best is not None and metric:
        print(f"Best        {best.name}: {metric} = {_cell(best.value(metric))}")
        for key, value in best.params.items():
            print(f"              {key} = {_cell(value)}")
    failed = [trial for trial in experiment.trials if trial.status == "ERROR"]
    for trial in failed[:5]:
        text = (trial.error or "").strip().splitlines()
        print(f"Failed      {trial.name}: {text[-1] if text else 'unknown'}")
    if len(failed) > 5:
        print(f"            and {len(failed) - 5} more: eagleray tune ls {experiment.folder} --filter status=ERROR")
    if experiment.trouble:
        print(f"Note        {experiment.trouble}")
    return 0


def _state(experiment: ExperimentFiles, statuses: Counter[str]) -> str:
    if experiment.writer_pid is not None:
        return f"runs (pid {experiment.writer_pid})"
    unfinished = sum(statuses[name] for name in ("RUNNING", "PENDING", "PAUSED", "UNFINISHED"))
    return f"interrupted: {unfinished} trials are unfinished" if unfinished else "ended"


def _best(experiment: ExperimentFiles, metric: str | None, mode: str | None) -> TrialFiles | None:
    if not metric:
        return None
    known = [trial for trial in experiment.trials if _is_finite(trial.value(metric))]
    if not known:
        return None
    choose = max if mode == "max" else min
    return choose(known, key=lambda trial: float(trial.value(metric)))


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _find(experiment: ExperimentFiles, wanted: str) -> TrialFiles:
    for trial in experiment.trials:
        if wanted in (trial.trial_id, trial.name) or wanted == str(trial.number):
            return trial
    begun = [trial for trial in experiment.trials if trial.name.startswith(wanted) or trial.trial_id.startswith(wanted)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ValueError(
            f"{len(begun)} trials begin with {wanted!r}: {', '.join(trial.name for trial in begun[:5])} ..."
        )
    raise ValueError(f"no trial {wanted!r}; `eagleray tune ls {experiment.folder}` lists them")


def _show_trial(trial: TrialFiles) -> None:
    from eagleray.tune import _files

    print(f"Trial       {trial.name} (number {trial.number}, id {trial.trial_id})")
    print(
        f"Status      {trial.status}"
        + (f", failed {trial.failures} time{'s' if trial.failures > 1 else ''}" if trial.failures else "")
    )
    if trial.folder is not None:
        print(f"Folder      {trial.folder}")
    print("Config")
    for key, value in _files.flat(trial.config).items():
        print(f"  {'*' if key in trial.params else ' '} {key} = {_cell(value)}")
    print(f"Last result (of {trial.results_count})")
    for key, value in _files.flat({key: value for key, value in trial.last.items() if key != "config"}).items():
        print(f"    {key} = {_cell(value)}")
    print(f"Checkpoints {', '.join(trial.checkpoints) or 'none'}")
    text = None if trial.folder is None or trial.status != "ERROR" else _files.error_text(trial.folder)
    if text or trial.error:
        print("Error")
        for line in (text or trial.error or "").splitlines():
            print(f"    {line}")


# Pictures.


def _plot(options: Any) -> int:
    from eagleray.tune import plots

    experiment = _read(options.folder, history=options.kind in ("curves", "history"))
    metric = options.metric or experiment.metric
    if not metric:
        known = ", ".join(_metrics(experiment)) or "none"
        raise ValueError(f"say which metric to draw: --metric. The trials report: {known}")
    mode = options.mode or experiment.mode or "min"
    try:
        figure = getattr(plots, options.kind)(experiment, metric=metric, mode=mode)
    except ImportError as error:
        raise ValueError(str(error)) from error
    try:
        plots.save(figure, options.out)
    except OSError as error:
        raise ValueError(f"cannot write {options.out}: {error}") from error
    print(options.out)
    return 0


# Repairs.


def _repair(options: Any) -> int:
    from pathlib import Path

    from eagleray.tune._repair import repair
    from eagleray.tune.error import TuneError

    try:
        done = repair(Path(options.folder).expanduser())
    except (OSError, TuneError) as error:
        raise ValueError(str(error)) from error
    if done is None:
        print("The journal is not damaged: nothing was done.")
        return 0
    print(
        f"Cut the journal at byte {done.offset}: {done.kept} events are left. {_many(done.dropped, 'whole event')} behind the damage "
        f"({done.dropped_bytes} bytes in all) went."
    )
    print(f"The journal as it was is {done.copy}.")
    if done.moved:
        print(f"{_many(done.moved, 'folder')} of trials that it no longer knows: moved to {done.aside}.")
    if done.kept:
        print(
            f"Go on with Tuner.restore({options.folder!r}, trainable): what was reported behind the damage is run again."
        )
    else:
        print("Nothing stood before the damage, so the experiment cannot go on: start it under another name.")
    return 0


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
