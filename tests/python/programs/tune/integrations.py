"""A trainable for trying out, and trials inside of tasks."""

import ray
from ray import tune
from ray.tune.utils.mock_trainable import MyTrainableClass

ray.init(num_cpus=4)
results = tune.Tuner(
    MyTrainableClass,
    param_space={"width": tune.randint(5, 20), "height": tune.grid_search([10, 100])},
    tune_config=tune.TuneConfig(metric="episode_reward_mean", mode="max"),
    run_config=tune.RunConfig(verbose=0, stop={"training_iteration": 4}),
).fit()
assert results.get_best_result().config["height"] == 100


@ray.remote(num_cpus=0)
def experiment(base):
    def train(config):
        return {"sum": base + config["x"]}

    found = tune.Tuner(
        train, param_space={"x": tune.grid_search([1, 2])}, run_config=tune.RunConfig(verbose=0, name=f"inner{base}")
    ).fit()
    return sorted(result.metrics["sum"] for result in found)


assert ray.get([experiment.remote(10), experiment.remote(20)]) == [[11, 12], [21, 22]]
print("ok")
