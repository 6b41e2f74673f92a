"""When trials and experiments end."""

import ray
from ray import tune
from ray.tune.stopper import CombinedStopper, FunctionStopper, MaximumIterationStopper, Stopper, TrialPlateauStopper

ray.init(num_cpus=2)


def endless(config):
    step = 0
    while True:
        step += 1
        tune.report({"value": min(step * config["speed"], 20)})


class Enough(Stopper):
    def __init__(self):
        self.is_over = False

    def __call__(self, trial_id, result):
        self.is_over = self.is_over or result["value"] >= 8
        return self.is_over

    def stop_all(self):
        return self.is_over


def iterations(stop):
    space = {"speed": tune.grid_search([1, 2])}
    results = tune.Tuner(endless, param_space=space, run_config=tune.RunConfig(verbose=0, stop=stop)).fit()
    assert not results.errors
    return [(result.metrics or {}).get("training_iteration", 0) for result in results]


assert iterations({"training_iteration": 3}) == [3, 3]
assert iterations({"value": 6}) == [6, 3]
assert iterations(lambda trial_id, result: result["value"] > 3) == [4, 2]
assert iterations(MaximumIterationStopper(2)) == [2, 2]
assert iterations(
    CombinedStopper(MaximumIterationStopper(9), FunctionStopper(lambda _, result: result["value"] >= 4))
) == [4, 2]
assert all(number >= 10 for number in iterations(TrialPlateauStopper("value", num_results=3, grace_period=3)))
assert min(iterations(Enough())) <= 8
print("ok")
