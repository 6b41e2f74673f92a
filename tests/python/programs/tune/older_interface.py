"""`tune.run`, its analysis, and names of older versions."""

import ray
from ray import air, train, tune
from ray.tune.schedulers import AsyncHyperBandScheduler
from ray.tune.suggest.basic_variant import BasicVariantGenerator

ray.init(num_cpus=2)


def objective(config):
    for step in range(4):
        tune.report(mean_loss=(config["x"] - 2) ** 2 + 1 / (step + 1))


analysis = tune.run(
    objective,
    config={"x": tune.grid_search([0, 2, 4])},
    metric="mean_loss",
    mode="min",
    scheduler=AsyncHyperBandScheduler(),
    search_alg=BasicVariantGenerator(),
    resources_per_trial={"cpu": 1},
    verbose=0,
)
assert analysis.best_config == {"x": 2}
assert analysis.best_result["mean_loss"] == 0.25
assert len(analysis.trials) == 3
assert analysis.best_trial.last_result["training_iteration"] == 4
assert len(analysis.dataframe()) == 3
assert air.RunConfig is train.RunConfig is tune.RunConfig
print("ok")
