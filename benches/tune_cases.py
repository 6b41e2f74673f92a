"""One case of `tune.py`, in Ray's words: runs on eagleray and on Ray alike, in a process of its own.

    python tune_cases.py MODULE CASE COUNT FOLDER

It prints `{"seconds": ..., "per_second": ...}` as the last line.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

ray = importlib.import_module(sys.argv[1])
tune = importlib.import_module(f"{sys.argv[1]}.tune")


def once(config: dict[str, Any]) -> None:
    tune.report({"loss": config["x"]})


def many(config: dict[str, Any]) -> None:
    for step in range(config["steps"]):
        tune.report({"loss": 1.0 / (step + 1), "accuracy": 0.5, "step": step})


def fit(
    function: Any, space: dict[str, Any], samples: int, name: str, folder: Path, searcher: str | None = None
) -> Any:
    goal = {} if searcher is None else {"search_alg": searcher, "metric": "loss", "mode": "min"}
    return tune.Tuner(
        function,
        param_space=space,
        tune_config=tune.TuneConfig(num_samples=samples, **goal),
        run_config=tune.RunConfig(name=name, storage_path=str(folder), verbose=0),
    ).fit()


def run(case: str, count: int, folder: Path) -> float:
    """How long the case took, in seconds."""
    point = {"x": tune.uniform(0, 1)}
    fit(once, point, 2, "warm", folder)
    start = time.perf_counter()
    if case == "trials":
        results = fit(once, point, count, case, folder)
        assert len(results) == count
        assert not results.errors
    elif case in ("results", "bare"):
        results = fit(many, {"steps": count // 2}, 2, case, folder)
        assert all(result.metrics["training_iteration"] == count // 2 for result in results)
    else:
        kinds = {"resume": None, "resume_tpe": "tpe", "resume_gp": "gp"}
        fit(once, point, count, case, folder, kinds[case])
        start = time.perf_counter()
        assert len(tune.Tuner.restore(str(folder / case), once).fit()) == count
    return time.perf_counter() - start


if __name__ == "__main__":
    ray.init(num_cpus=2, log_to_driver=False)
    seconds = run(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    print(json.dumps({"seconds": seconds, "per_second": int(sys.argv[3]) / seconds}))
    ray.shutdown()
