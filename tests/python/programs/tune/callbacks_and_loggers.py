"""What watches an experiment: callbacks, loggers, reporters, names of trials."""

import io
import os
from contextlib import redirect_stdout

import ray
from ray import tune
from ray.tune import Callback, CLIReporter
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, LoggerCallback

ray.init(num_cpus=2)
SEEN = []


class Watcher(Callback):
    def setup(self, **info):
        SEEN.append("setup")

    def on_trial_start(self, iteration, trials, trial, **info):
        SEEN.append("start")

    def on_trial_result(self, iteration, trials, trial, result, **info):
        SEEN.append(result["value"])

    def on_trial_complete(self, iteration, trials, trial, **info):
        SEEN.append("complete")

    def on_experiment_end(self, trials, **info):
        SEEN.append("end")


class Lines(LoggerCallback):
    def log_trial_result(self, iteration, trial, result):
        with open(os.path.join(trial.local_path, "own.txt"), "a") as file:
            file.write(f"{result['value']}\n")


def train(config):
    for value in range(2):
        tune.report({"value": value})


shown = io.StringIO()
with redirect_stdout(shown):
    results = tune.Tuner(
        train,
        tune_config=tune.TuneConfig(
            trial_name_creator=lambda trial: "named", trial_dirname_creator=lambda trial: "folder"
        ),
        run_config=tune.RunConfig(
            verbose=1,
            callbacks=[Watcher(), Lines(), JsonLoggerCallback(), CSVLoggerCallback()],
            progress_reporter=CLIReporter(metric_columns=["value"], max_report_frequency=0),
        ),
    ).fit()
assert SEEN == ["setup", "start", 0, 1, "complete", "end"], SEEN
assert os.path.basename(results[0].path) == "folder"
with open(os.path.join(results[0].path, "own.txt")) as file:
    assert file.read() == "0\n1\n"
assert {"result.json", "progress.csv"} <= set(os.listdir(results[0].path))
assert "value" in shown.getvalue()
print("ok")
