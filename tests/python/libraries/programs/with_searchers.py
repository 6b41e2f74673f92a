"""Tune with the optimisers of other packages, on spaces of Tune's and of their own."""

import tempfile
import warnings

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter, create_searcher

SPACE = {
    "x": tune.uniform(-3, 3),
    "lr": tune.loguniform(1e-4, 1),
    "n": tune.randint(1, 8),
    "q": tune.quniform(0, 1, 0.25),
    "kind": tune.choice(["a", "b"]),
    "deep": {"y": tune.uniform(0, 1)},
    "opt": tune.choice([{"name": "sgd", "momentum": tune.uniform(0, 1)}, {"name": "adam"}]),
}
NUMBERS = {name: SPACE[name] for name in ("x", "lr", "q", "deep")}


def objective(config):
    return {"loss": (config["x"] - 1) ** 2 + (config.get("kind") == "b")}


def fit(searcher, space, count, name):
    tuner = tune.Tuner(
        objective,
        param_space=space,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=count, search_alg=searcher),
        run_config=tune.RunConfig(storage_path=FOLDER, name=name, verbose=0),
    )
    results = tuner.fit()
    assert len(results) == count, (name, len(results))
    assert not results.errors, (name, results.errors)
    return results


def check(name, options):
    space = NUMBERS if name == "bayesopt" else SPACE
    searcher = create_searcher(name, points_to_evaluate=[{"x": 0.5}], **options)
    results = fit(ConcurrencyLimiter(searcher, 2), space, 14, name)
    assert results[0].config["x"] == 0.5
    for result in results:
        config = result.config
        assert -3 <= config["x"] <= 3
        assert 1e-4 <= config["lr"] <= 1
        assert config["q"] in (0, 0.25, 0.5, 0.75, 1)
        assert space is NUMBERS or (type(config["n"]) is int and 1 <= config["n"] < 8 and config["kind"] in "ab")
        assert space is NUMBERS or config["opt"]["name"] == "adam" or 0 <= config["opt"]["momentum"] <= 1
    again = tune.Tuner.restore(f"{FOLDER}/{name}", objective).fit()
    assert [one.config for one in again] == [one.config for one in results]


def check_own_spaces():
    import nevergrad
    import skopt
    import zoopt
    from hyperopt import hp
    from ray.tune.search.bayesopt import BayesOptSearch
    from ray.tune.search.hyperopt import HyperOptSearch
    from ray.tune.search.nevergrad import NevergradSearch
    from ray.tune.search.skopt import SkOptSearch
    from ray.tune.search.zoopt import ZOOptSearch

    what = {"metric": "loss", "mode": "min"}
    fit(HyperOptSearch({"x": hp.uniform("x", 0, 2), "kind": hp.choice("k", ["a", "b"])}, **what), {}, 6, "own-hp")
    fit(BayesOptSearch({"x": (0, 2)}, random_search_steps=2, **what), {}, 4, "own-bayesopt")
    over = nevergrad.p.Dict(x=nevergrad.p.Scalar(lower=0, upper=2))
    fit(NevergradSearch(nevergrad.optimizers.OnePlusOne, {"budget": 6}, over, **what), {}, 6, "own-nevergrad")
    fit(SkOptSearch(space={"x": skopt.space.Real(0, 2), "kind": ["a", "b"]}, **what), {}, 6, "own-skopt")
    made = skopt.Optimizer([(0.0, 2.0)], random_state=1)
    found = fit(
        SkOptSearch(made, ["x"], points_to_evaluate=[[0.5]], evaluated_rewards=[0.25], **what), {}, 3, "own-made"
    )
    assert len(made.yi) == 4, "three trials, and the point that was tried before"
    assert 0.5 not in [one.config["x"] for one in found]
    fit(ZOOptSearch(budget=8, dim_dict={"x": (zoopt.ValueType.CONTINUOUS, [0, 2], 1e-6)}, **what), {}, 8, "own-zoopt")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    ray.init(num_cpus=2)
    FOLDER = tempfile.mkdtemp()
    for name, options in {
        "hyperopt": {},
        "bayesopt": {},
        "nevergrad": {},
        "zoopt": {"budget": 14},
        "optuna": {},
        "skopt": {},
    }.items():
        check(name, options)
    check_own_spaces()
    print("searchers ran on eagleray", ray.__name__)
