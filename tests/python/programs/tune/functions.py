"""A function as a trainable: it reports, or returns, and asks about itself."""

import ray
from ray import tune

ray.init(num_cpus=2)


def reports(config):
    context = tune.get_context()
    assert context.get_trial_id()
    assert context.get_experiment_name() == "reports"
    for step in range(3):
        tune.report({"score": config["a"] * step + config["b"]})


def returns(config):
    return {"score": config["a"] ** 2}


space = {"a": tune.grid_search([1, 2]), "b": 5}
results = tune.Tuner(reports, param_space=space, run_config=tune.RunConfig(name="reports", verbose=0)).fit()
assert [result.metrics["score"] for result in results] == [7, 9]
assert [result.metrics["training_iteration"] for result in results] == [3, 3]
best = results.get_best_result(metric="score", mode="max")
assert best.config == {"a": 2, "b": 5}
assert list(best.metrics_dataframe["score"]) == [5, 7, 9]

results = tune.Tuner(returns, param_space=space, run_config=tune.RunConfig(verbose=0)).fit()
assert sorted(result.metrics["score"] for result in results) == [1, 4]
print("ok")
