"""Optuna's samplers with their defaults, in their own environment: `python optuna_samplers.py problem sampler seed ...`.

Prints one JSON object per line: the best value after every trial, and the mean seconds of a suggestion.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import optuna

from tune_problems import PROBLEMS

SAMPLERS = {
    "tpe": optuna.samplers.TPESampler,
    "gp": optuna.samplers.GPSampler,
    "cma": optuna.samplers.CmaEsSampler,
}


def main() -> None:
    problem_name, sampler_name, trials, *seeds = sys.argv[1:]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    problem = PROBLEMS[problem_name]
    for seed in seeds:
        study = optuna.create_study(sampler=SAMPLERS[sampler_name](seed=int(seed)))
        bests: list[float] = []
        asking = 0.0
        for _ in range(int(trials)):
            start = time.perf_counter()
            trial = study.ask()
            config = problem.ask(trial)
            asking += time.perf_counter() - start
            value = problem.objective(config)
            study.tell(trial, value)
            bests.append(min(value, bests[-1]) if bests else value)
        print(json.dumps({"seed": int(seed), "bests": bests, "ask_seconds": asking / int(trials)}), flush=True)


if __name__ == "__main__":
    main()
