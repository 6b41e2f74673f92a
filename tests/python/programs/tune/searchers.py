"""Who proposes: built-in searchers, limits, repetitions, and one of the program's own."""

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher, create_searcher

ray.init(num_cpus=2)


def objective(config):
    return {"loss": (config["x"] - 2) ** 2}


class Halving(Searcher):
    def __init__(self):
        super().__init__(metric="loss", mode="min")
        self.low, self.high, self.tried = 0.0, 10.0, {}

    def suggest(self, trial_id):
        if len(self.tried) >= 8:
            return Searcher.FINISHED
        self.tried[trial_id] = (self.low + self.high) / 2
        return {"x": self.tried[trial_id]}

    def on_trial_complete(self, trial_id, result=None, error=False):
        if self.tried[trial_id] > 2:
            self.high = self.tried[trial_id]
        else:
            self.low = self.tried[trial_id]


def run(searcher, space=None, num_samples=8):
    config = tune.TuneConfig(metric="loss", mode="min", search_alg=searcher, num_samples=num_samples)
    results = tune.Tuner(
        objective, param_space=space or {}, tune_config=config, run_config=tune.RunConfig(verbose=0)
    ).fit()
    assert not results.errors
    return results


space = {"x": tune.uniform(0, 10)}
for name in ("tpe", "cmaes", "gp", "sobol"):
    assert len(run(create_searcher(name, seed=1), space)) == 8
known = run(create_searcher("tpe", seed=1, points_to_evaluate=[{"x": 2.0}]), space)
assert known[0].metrics["loss"] == 0.0
results = run(ConcurrencyLimiter(Halving(), max_concurrent=1), num_samples=-1)
assert results.get_best_result().metrics["loss"] < 0.1
repeated = run(Repeater(create_searcher("tpe", seed=1), repeat=2), space)
assert len({result.config["x"] for result in repeated}) == 4
print("ok")
