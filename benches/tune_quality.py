"""How good our searchers are beside Optuna's: `make bench-tune-quality`.

Every searcher minimises every function from many seeds with the same number of trials. Optuna's run in an environment of
their own (build/peers/optuna). For each case: the median distance of the best value to the function's least, of both;
the mean difference of their logarithms, with an interval that holds it in 95 of 100 cases (bootstrap); and how long a
suggestion takes on average.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from environments import REPOSITORY, prepare
from tune_problems import PROBLEMS, Problem

SEARCHERS = {"tpe": "TPESampler", "gp": "GPSampler", "cma": "CmaEsSampler"}
FOLDER = REPOSITORY / "build" / "tune-quality"
RESAMPLES = 10_000
#: Distances below this are all the same: what is left is rounding.
SMALLEST = 1e-10


def main() -> None:
    options = parse()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not options.no_quality and is_optuna_here():
        print(f"{options.seeds} seeds, {options.trials} trials; distance of the best value to the least, as log10")
        print(
            f"{'searcher':9}{'function':19}{'ours':>10}{'Optuna':>10}{'difference':>12}{'95 % interval':>19}  {'':14}ms per suggestion"
        )
        worse = []
        for kind in options.searchers:
            for name in options.functions:
                ours = run_ours(kind, name, options)
                theirs = run_optuna(kind, name, options)
                if not compare(kind, name, ours, theirs):
                    worse.append(f"{kind} on {name}")
        print("worse: " + ", ".join(worse) if worse else "no interval says that ours is worse")
    suggestion_times()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searchers", type=lambda text: text.split(","), default=list(SEARCHERS))
    parser.add_argument("--functions", type=lambda text: text.split(","), default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--again", action="store_true", help="run Optuna again where its results are on disk")
    parser.add_argument("--no-quality", action="store_true", help="suggestion times only")
    return parser.parse_args()


def is_optuna_here() -> bool:
    """Installs it. Without it there is nothing to compare with, and the suggestion times remain."""
    try:
        prepare("optuna")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"note: Optuna cannot be installed, so nothing is compared: {error}")
        return False
    return True


def _seeds(options) -> range:
    return range(options.first_seed, options.first_seed + options.seeds)


def run_ours(kind: str, name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    return [minimise(kind, PROBLEMS[name], seed, options.trials) for seed in _seeds(options)]


def run_optuna(kind: str, name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """From disk if it was run before; its samplers are slow, and do not change."""
    path = FOLDER / f"optuna-{kind}-{name}-{options.trials}.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() and not options.again else []
    missing = sorted(set(_seeds(options)) - {each["seed"] for each in known})
    if missing:
        python = prepare("optuna")
        script = REPOSITORY / "benches" / "against" / "optuna_samplers.py"
        command = [str(python), str(script), name, kind, str(options.trials), *map(str, missing)]
        # More threads than cores make its Gaussian process slower.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        known += [json.loads(line) for line in done.stdout.splitlines()]
        path.write_text("".join(json.dumps(each) + "\n" for each in known))
    return [each for each in known if each["seed"] in _seeds(options)]


def flat(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        found.update(flat(value) if isinstance(value, dict) else {key: value})
    return found


def make(kind: str, space: dict[str, Any], seed: int) -> Any:
    from eagleray.tune.search import CMAESSearch, GPSearch, TPESearch

    searcher = {"tpe": TPESearch, "gp": GPSearch, "cma": CMAESSearch}[kind]
    return searcher(space, metric="value", mode="min", seed=seed)


def minimise(kind: str, problem: Problem, seed: int, trials: int, last: int | None = None) -> dict[str, Any]:
    """One search. `last`: of how many suggestions at the end the time is taken; by default of all."""
    from eagleray.tune.search import sample

    searcher = make(kind, problem.space(sample), seed)
    bests: list[float] = []
    seconds: list[float] = []
    for number in range(trials):
        start = time.perf_counter()
        config = searcher.suggest(str(number))
        seconds.append(time.perf_counter() - start)
        value = problem.objective(flat(config))
        bests.append(min(value, bests[-1]) if bests else value)
        searcher.on_trial_complete(str(number), {"value": value})
    return {"seed": seed, "bests": bests, "ask_seconds": statistics.fmean(seconds[-(last or trials) :])}


def compare(kind: str, name: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    """Prints a line; returns whether the interval includes 0 or favours us."""
    problem = PROBLEMS[name]

    def distances(runs: list[dict[str, Any]]) -> list[float]:
        return [math.log10(max(run["bests"][-1] - problem.least, SMALLEST)) for run in runs]

    a, b = distances(ours), distances(theirs)
    chance = random.Random(0)
    means = sorted(
        statistics.fmean(chance.choices(a, k=len(a))) - statistics.fmean(chance.choices(b, k=len(b)))
        for _ in range(RESAMPLES)
    )
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
    verdict = "favours us" if high < 0 else "includes 0" if low <= 0 else "WORSE"
    times = [1e3 * statistics.fmean(run["ask_seconds"] for run in runs) for runs in (ours, theirs)]
    print(
        f"{kind:9}{problem.title:19}{statistics.median(a):10.2f}{statistics.median(b):10.2f}"
        f"{statistics.fmean(a) - statistics.fmean(b):12.2f}{f'[{low:.2f}, {high:.2f}]':>19}  {verdict:14}"
        f"{times[0]:.2f} against {times[1]:.1f}",
        flush=True,
    )
    return low <= 0


def suggestion_times() -> None:
    print("\nmean of the last 50 suggestions, ms")
    for kind, trials in (("tpe", 1000), ("gp", 300)):
        for name in PROBLEMS:
            seconds = minimise(kind, PROBLEMS[name], 0, trials, last=50)["ask_seconds"]
            print(f"{kind:9}{PROBLEMS[name].title:19}at {trials:5} trials{1e3 * seconds:10.2f}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
