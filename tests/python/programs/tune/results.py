"""What an experiment leaves: results, frames, files, and the way back to them."""

import os
import tempfile

import ray
from ray import tune

ray.init(num_cpus=2)
FOLDER = tempfile.mkdtemp()


def train(config):
    for step in range(3):
        tune.report({"loss": config["x"] / (step + 1), "accuracy": step * config["x"]})


tune.Tuner(
    train,
    param_space={"x": tune.grid_search([1.0, 2.0, 3.0])},
    tune_config=tune.TuneConfig(metric="loss", mode="min"),
    run_config=tune.RunConfig(name="kept", storage_path=FOLDER, verbose=0),
).fit()
results = tune.Tuner.restore(os.path.join(FOLDER, "kept"), trainable=train).get_results()
assert (len(results), results.num_errors, results.num_terminated) == (3, 0, 3)
best = results.get_best_result()
assert best.config["x"] == 1.0
assert os.path.exists(os.path.join(best.path, "result.json"))
frame = results.get_dataframe()
assert sorted(frame["config/x"]) == [1.0, 2.0, 3.0]
best_ever = results.get_dataframe(filter_metric="accuracy", filter_mode="max")
assert sorted(best_ever["accuracy"]) == [2.0, 4.0, 6.0]
assert list(best.metrics_dataframe["loss"]) == [1.0, 0.5, 1.0 / 3]
analysis = tune.ExperimentAnalysis(os.path.join(FOLDER, "kept"))
assert analysis.get_best_config(metric="loss", mode="min")["x"] == 1.0
assert len(analysis.trial_dataframes) == 3
print("ok")
