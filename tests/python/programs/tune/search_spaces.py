"""What a parameter may be, and parameters that depend on others."""

import random

import ray
from ray import tune

random.seed(1)
ray.init(num_cpus=2)
space = {
    "uniform": tune.uniform(-5, -1),
    "quantized": tune.quniform(3.2, 5.4, 0.2),
    "logarithmic": tune.loguniform(1e-4, 1e-1),
    "quantized_log": tune.qloguniform(1e-4, 1e-1, 5e-5),
    "normal": tune.randn(10, 2),
    "quantized_normal": tune.qrandn(10, 2, 0.2),
    "integer": tune.randint(-9, 15),
    "quantized_integer": tune.qrandint(-21, 12, 3),
    "log_integer": tune.lograndint(1, 10),
    "choice": tune.choice(["a", "b", "c"]),
    "function": tune.sample_from(lambda config: config["integer"] * 2),
    "nested": {"grid": tune.grid_search([32, 64]), "constant": [1, 2]},
}


def check(config):
    assert -5 <= config["uniform"] <= -1
    assert abs(config["quantized"] / 0.2 - round(config["quantized"] / 0.2)) < 1e-6
    assert 1e-4 <= config["logarithmic"] <= 1e-1
    assert config["quantized_integer"] % 3 == 0
    assert config["function"] == 2 * config["integer"]
    assert config["choice"] in "abc"
    return {"grid": config["nested"]["grid"]}


results = tune.Tuner(
    check, param_space=space, tune_config=tune.TuneConfig(num_samples=3), run_config=tune.RunConfig(verbose=0)
).fit()
assert not results.errors, results.errors
assert sorted(result.metrics["grid"] for result in results) == [32, 32, 32, 64, 64, 64]
print("ok")
