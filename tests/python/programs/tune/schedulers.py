"""Trials that are not worth it end early, or learn from better ones."""

import json
import os
import tempfile

import ray
from ray import tune
from ray.tune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    create_scheduler,
)

ray.init(num_cpus=2)


def curve(config):
    step = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "step")) as file:
            step = json.load(file)
    while True:
        step += 1
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "step"), "w") as file:
                json.dump(step, file)
            tune.report({"loss": config["x"] + 1 / step}, checkpoint=tune.Checkpoint.from_directory(folder))


def run(scheduler, **more):
    tuner = tune.Tuner(
        curve,
        param_space={"x": tune.grid_search([0.0, 1.0, 2.0, 3.0])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, **more),
        run_config=tune.RunConfig(verbose=0, stop={"training_iteration": 8}),
    )
    results = tuner.fit()
    assert not results.errors
    return results


results = run(ASHAScheduler(max_t=8, grace_period=1, reduction_factor=2))
assert results.get_best_result().config["x"] == 0.0
assert min(result.metrics["training_iteration"] for result in results) < 8
assert run(HyperBandScheduler(max_t=8)).get_best_result().config["x"] == 0.0
assert run(MedianStoppingRule(grace_period=2, min_samples_required=2)).get_best_result().config["x"] == 0.0
assert type(create_scheduler("async_hyperband")).__name__ == "AsyncHyperBandScheduler"
population = PopulationBasedTraining(
    time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": tune.uniform(0, 3)}
)
assert run(population).get_best_result().metrics["loss"] < 1.2
print("ok")
