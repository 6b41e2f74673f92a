"""What Tune costs, beside Ray Tune and Optuna, on this machine and in one run: `make bench-tune`.

Each case runs in a process of its own. The programs are the same for eagleray and Ray; Optuna has no processes of its own, so its trials run
in the process that asks for them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from environments import prepare

PROGRAM = """
import json, os, sys, time
case, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if "eagleray" in sys.argv[4]:
    import eagleray as ray
else:
    import ray
from ray_tune import tune
ray.init(num_cpus=2, log_to_driver=False)

def once(config):
    tune.report({"loss": config["x"]})

def many(config):
    for step in range(config["steps"]):
        tune.report({"loss": 1.0 / (step + 1), "accuracy": 0.5, "step": step})

def fit(function, space, samples, name):
    return tune.Tuner(function, param_space=space, tune_config=tune.TuneConfig(num_samples=samples),
                      run_config=tune.RunConfig(name=name, storage_path=folder, verbose=0)).fit()

fit(once, {"x": tune.uniform(0, 1)}, 2, "warm")
start = time.perf_counter()
if case == "trials":
    results = fit(once, {"x": tune.uniform(0, 1)}, count, case)
    assert len(results) == count and not results.errors
    done = count
elif case in ("results", "bare"):
    results = fit(many, {"steps": count // 2}, 2, case)
    assert all(result.metrics["training_iteration"] == count // 2 for result in results)
    done = count
elif case == "resume":
    fit(once, {"x": tune.uniform(0, 1)}, count, case)
    start = time.perf_counter()
    tuner = tune.Tuner.restore(os.path.join(folder, case), once)
    assert len(tuner.get_results()) == count
    done = count
took = time.perf_counter() - start
print(json.dumps({"seconds": took, "per_second": done / took}))
ray.shutdown()
"""

OPTUNA = """
import json, sys, time, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
count = int(sys.argv[2])
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
start = time.perf_counter()
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=count)
took = time.perf_counter() - start
print(json.dumps({"seconds": took, "per_second": count / took}))
"""

#: By case: what is counted, and how many of it by system.
CASES = {
    "trials": ("trivial trials/s, default loggers", {"eagleray": 2000, "ray_tune": 30, "optuna": 2000}),
    "results": ("results/s, default loggers", {"eagleray": 60_000, "ray_tune": 1_000}),
    "bare": ("results/s, no loggers", {"eagleray": 100_000, "ray_tune": 2_000}),
    "resume": ("resume, seconds", {"eagleray": 10_000}),
}


def run(system: str, case: str, count: int) -> dict[str, float]:
    """Run one case on one system."""
    python = prepare(system)
    with tempfile.TemporaryDirectory() as folder:
        if system == "optuna":
            program = OPTUNA
        else:
            program = PROGRAM.replace(
                "from ray_tune import tune", f"from {'eagleray' if system == 'eagleray' else 'ray'} import tune"
            )
        script = Path(folder, "program.py")
        script.write_text(program)
        extra = {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"} if case == "bare" else {}
        import os

        answer = subprocess.run(
            [str(python), str(script), case, str(count), folder, system],
            env={**os.environ, **extra},
            capture_output=True,
            text=True,
            timeout=900,
            cwd=folder,
            check=False,
        )
    if answer.returncode != 0:
        raise RuntimeError(f"{system} {case}: {answer.stderr[-2000:]}")
    said: dict[str, float] = json.loads(answer.stdout.strip().splitlines()[-1])
    return said


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="eagleray,ray_tune,optuna")
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    systems = options.systems.split(",")
    print("| what | " + " | ".join(systems) + " | to Ray |")
    print("|---|" + "--:|" * (len(systems) + 1))
    for case in options.cases.split(","):
        what, counts = CASES[case]
        figures: dict[str, float] = {}
        for system in systems:
            if system in counts:
                said = run(system, case, counts[system])
                figures[system] = said["seconds"] if case == "resume" else said["per_second"]
        cells = [f"{figures[system]:,.2f}" if system in figures else "" for system in systems]
        ratio = figures["eagleray"] / figures["ray_tune"] if {"eagleray", "ray_tune"} <= figures.keys() else None
        print(f"| {what} | " + " | ".join(cells) + f" | {f'{ratio:,.0f}x' if ratio else ''} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
