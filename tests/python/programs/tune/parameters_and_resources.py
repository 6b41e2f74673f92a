"""Large objects and resources for a trainable, and trials that start tasks of their own."""

import numpy as np
import ray
from ray import tune

ray.init(num_cpus=4)
data = np.arange(1_000_000)


def train(config, data):
    assert ray.get_runtime_context().get_assigned_resources()["CPU"] == config["cpus"]
    return {"sum": int(data[: config["count"]].sum())}


for cpus in (1, 2):
    trainable = tune.with_resources(tune.with_parameters(train, data=data), {"cpu": cpus})
    space = {"count": tune.grid_search([3, 4]), "cpus": cpus}
    results = tune.Tuner(trainable, param_space=space, run_config=tune.RunConfig(verbose=0)).fit()
    assert [result.metrics["sum"] for result in results] == [3, 6], results.errors


def parallel(config):
    @ray.remote
    def square(x):
        return x * x

    return {"total": sum(ray.get([square.remote(x) for x in range(config["n"])]))}


bundles = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])
results = tune.Tuner(
    tune.with_resources(parallel, bundles), param_space={"n": 4}, run_config=tune.RunConfig(verbose=0)
).fit()
assert results[0].metrics["total"] == 14, results.errors
print("ok")
