"""Searchers over users' own packages: without the package, and with small ones in its place.

The real packages are tried by tests/python/libraries.
"""

import random
import sys
from types import ModuleType

import pytest

from eagleray import tune
from eagleray.tune.search import ConcurrencyLimiter, create_searcher
from eagleray.tune.search._package import PackageSearcher
from eagleray.tune.search.bayesopt import BayesOptSearch

PACKAGES = {
    "hyperopt": "hyperopt",
    "bayesopt": "bayesian-optimization",
    "nevergrad": "nevergrad",
    "ax": "ax-platform",
    "hebo": "HEBO",
    "zoopt": "zoopt",
    "skopt": "scikit-optimize",
    "optuna": "optuna",
}
GIVEN = {"zoopt": {"budget": 5}}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_searcher_whose_package_is_missing_says_what_to_install(monkeypatch, name):
    imported = {"bayesopt": "bayes_opt"}.get(name, name)
    monkeypatch.setitem(sys.modules, imported, None)
    with pytest.raises(ImportError, match=f"pip install {PACKAGES[name]}"):
        create_searcher(name, **GIVEN.get(name, {}))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_searcher_of_a_package_is_also_at_its_older_place(name):
    old, new = f"eagleray.tune.suggest.{name}", f"eagleray.tune.search.{name}"
    (found,) = __import__(new, fromlist=["*"]).__all__
    assert getattr(__import__(old, fromlist=["*"]), found) is getattr(__import__(new, fromlist=["*"]), found)


class Listed:
    """An optimiser that asks for random points and keeps all that it hears. Its seed is of this process, as some packages' is."""

    salt = 0

    def __init__(self, seed):
        self.random = random.Random(seed + Listed.salt)
        self.told = []
        self.dropped = []


class ListedSearch(PackageSearcher):
    _package = "json"
    _pip = "json"

    def _make(self):
        return Listed(self.seed)

    def _next(self):
        values = []
        for param in self._converted.params:
            branches = len(param.branches)
            values.append(self._optimizer.random.randrange(branches) if branches else self._optimizer.random.random())
        return values, values

    def _give(self, point):
        return point

    def _drop(self, asked):
        self._optimizer.dropped.append(asked)

    def _learn(self, asked, loss, result):
        self._optimizer.told.append((asked, loss))


SPACE = {
    "x": tune.uniform(0, 1),
    "kind": tune.choice(["a", {"depth": tune.uniform(0, 1)}]),
    "deep": {"constant": 7},
}


def trainable(config):
    if config["x"] == 0.25:
        raise RuntimeError("this one fails")
    return {"score": config["x"]}


def fit(tmp_path, searcher, num_samples=6):
    tuner = tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(metric="score", mode="max", num_samples=num_samples, search_alg=searcher),
        run_config=tune.RunConfig(name="e", storage_path=str(tmp_path), verbose=0),
    )
    return tuner.fit()


def test_a_package_is_told_of_every_trial_and_less_is_better(shared_ray, tmp_path):
    searcher = ListedSearch(seed=1, points_to_evaluate=[{"x": 0.5}, {"x": 0.25, "kind": "a"}])
    results = fit(tmp_path, ConcurrencyLimiter(searcher, 1))
    told = searcher._optimizer.told
    assert [asked[0] for asked, _ in told] == [result.config["x"] for result in results]
    assert [loss for _, loss in told] == [None if result.error else -result.config["x"] for result in results]
    assert (results[0].config["x"], results[1].config["x"]) == (0.5, 0.25)
    assert all(result.config["deep"]["constant"] == 7 for result in results)
    kinds = [result.config["kind"] for result in results]
    assert all(kind == "a" or 0 <= kind["depth"] <= 1 for kind in kinds)


def test_a_package_that_asks_for_other_points_when_resumed_is_told_which_were_tried(shared_ray, tmp_path, monkeypatch):
    """Not every package can be seeded: what the journal has counts, also for the package."""
    results = fit(tmp_path, ConcurrencyLimiter(ListedSearch(seed=1), 1), num_samples=4)
    monkeypatch.setattr(Listed, "salt", 99)
    again = ListedSearch(seed=1)
    tuner = tune.Tuner.restore(str(tmp_path / "e"), trainable)
    plan = tuner.get_results()
    assert [one.config for one in plan] == [one.config for one in results]
    again.set_search_properties("score", "max", SPACE)
    first = ListedSearch(seed=1)
    first.set_search_properties("score", "max", SPACE)
    for number in range(3):
        config = first.suggest(str(number))
        assert again.retrace(str(number), first.trace()) == config
        again.on_trial_complete(str(number), {"score": config["x"]})
    assert [asked[0] for asked, _ in again._optimizer.told] == [-loss for _, loss in again._optimizer.told]


def test_a_saved_searcher_goes_on_where_it_was(tmp_path):
    first, second = ListedSearch(SPACE, "score", "max", seed=3), ListedSearch(SPACE, "score", "max", seed=4)
    first.suggest("1")
    first.save(str(tmp_path / "state"))
    second.restore(str(tmp_path / "state"))
    assert second.suggest("2") == first.suggest("2")
    second.on_trial_complete("1", {"score": 1.0})
    assert len(second._optimizer.told) == 1


def test_what_was_tried_elsewhere_is_told_to_the_package():
    searcher = ListedSearch(SPACE, "score", "max", seed=3)
    searcher.add_evaluated_point({"x": 0.5, "kind": "a", "deep": {"constant": 7}}, 2.0)
    assert searcher._optimizer.told == [([0.5, 0, None], -2.0)]
    with pytest.raises(ValueError, match="does not lie in the search space"):
        searcher.add_evaluated_point({"y": 0.5}, 2.0)


@pytest.fixture
def bayes_opt(monkeypatch):
    """A package that says the same from the third suggestion on, until it hears something new."""
    module = ModuleType("bayes_opt")

    class BayesianOptimization:
        def __init__(self, f, pbounds, random_state, verbose, allow_duplicate_points):
            self.pbounds, self.space, self.asked = pbounds, [], 0

        def suggest(self, utility):
            self.asked += 1
            share = min(self.asked, 3 + len(self.space)) / 100
            return {name: low + share * (high - low) for name, (low, high) in self.pbounds.items()}

        def register(self, params, target):
            self.space.append((params, target))

    module.BayesianOptimization = BayesianOptimization
    module.UtilityFunction = lambda **kwargs: kwargs
    monkeypatch.setitem(sys.modules, "bayes_opt", module)


def test_bayesopt_waits_while_it_has_nothing_new_and_ends_when_it_never_will(bayes_opt):
    searcher = BayesOptSearch({"x": tune.uniform(0, 100)}, "score", "max", random_search_steps=1, patience=2)
    assert [searcher.suggest(str(number)) for number in range(4)] == [{"x": 1.0}, {"x": 2.0}, {"x": 3.0}, None]
    assert searcher.suggest("4") is None
    searcher.on_trial_complete("0", {"score": 5.0})
    assert searcher.suggest("4") == {"x": 4.0}
    for number in (1, 2, 4):
        searcher.on_trial_complete(str(number), error=True)
    assert searcher._optimizer.space == [({"x": 1.0}, 5.0)]
    assert searcher.suggest("5") == "FINISHED"


def test_bayesopt_searches_logarithmic_numbers_by_their_logarithm_and_refuses_others(bayes_opt):
    bounds = BayesOptSearch.convert_search_space({"a": {"lr": tune.loguniform(1, 10)}})
    assert bounds == {"a/lr": (0.0, pytest.approx(2.302585))}
    with pytest.raises(ValueError, match="BayesOptSearch does not support parameters of type `Integer`: `n`"):
        BayesOptSearch.convert_search_space({"n": tune.randint(0, 5)})


def test_bayesopt_takes_bounds_of_its_own(bayes_opt):
    searcher = BayesOptSearch({"a/x": (0, 100)}, "score", "max")
    assert searcher.suggest("1") == {"a": {"x": 1.0}}


def test_a_package_that_knows_parameters_by_name_is_given_every_one():
    space = {**SPACE, "count": tune.randint(2, 5), "free": tune.randn(0, 1)}
    searcher = ListedSearch(space, "score", "max", seed=3)
    names = [param.name for param in searcher._converted.params]
    point = dict.fromkeys(names, 0) | {"x": 0.5, "kind": 0, "count": 3, "free": -7.0}
    depth = next(name for name in names if name.endswith("depth"))
    point[depth] = None
    told = searcher._named(list(point.values()))
    # Its condition is not met, but the package wants a number. Choices are texts, so that they have no order.
    assert told == {"x": 0.5, "kind": "0", depth: 0.0, "count": 3, "free": -7.0}
    asked = {"x": 1.2, "kind": "1", depth: -0.1, "count": 5.4, "free": 9.0}
    found = dict(zip(names, searcher._unnamed(asked), strict=True))
    # What packages round beyond the ends of a range is brought back into it.
    assert found == {"x": 1.0, "kind": 1, depth: 0.0, "count": 4, "free": 9.0}
