"""Trivial trials of Optuna for `tune.py`. It has no processes of its own: they run where they are asked for.

python optuna_trials.py COUNT
"""

from __future__ import annotations

import json
import sys
import time

import optuna

if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    count = int(sys.argv[1])
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    start = time.perf_counter()
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=count)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "per_second": count / seconds}))
