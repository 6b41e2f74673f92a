"""An experiment that is resumed goes on with the configurations of one that was never interrupted, whoever proposes them."""

import random

import pytest

from eagleray import tune
from eagleray.tune.search import (
    CMAESSearch,
    ConcurrencyLimiter,
    GPSearch,
    RandomSearch,
    Repeater,
    SobolSearch,
    TPESearch,
)
from eagleray.tune.search.bohb import TuneBOHB

SPACE = {
    "x": tune.loguniform(1e-3, 1.0),
    "step": tune.quniform(0, 1, 0.1),
    "model": tune.choice([{"kind": "flat"}, {"kind": "deep", "layers": tune.randint(1, 5)}]),
    "double": tune.sample_from(lambda config: config["x"] * 2),
}
TRIALS = 22


class Own:
    """A user's searcher, of no class of ours: what it proposes depends on what it was asked and told."""

    metric, mode = "loss", "min"

    def __init__(self):
        self.chance = random.Random(4)
        self.best = 1.0

    def set_search_properties(self, metric, mode, config, **spec):
        return True

    def suggest(self, trial_id):
        model = {"kind": "flat"}
        return {"x": self.best * self.chance.uniform(0.5, 1.0), "step": 0.5, "model": model, "double": 1.0}

    def on_trial_result(self, trial_id, result):
        pass

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.best = min(self.best, (result or {}).get("loss", 1.0))


def optuna():
    pytest.importorskip("optuna")
    from eagleray.tune.search.optuna import OptunaSearch

    return OptunaSearch(seed=1)


MAKERS = {
    "random": lambda: RandomSearch(seed=1),
    "sobol": lambda: SobolSearch(seed=1),
    "tpe": lambda: TPESearch(seed=1, n_startup_trials=4),
    "univariate": lambda: TPESearch(seed=1, n_startup_trials=4, multivariate=False),
    "cmaes": lambda: CMAESSearch(seed=1),
    "gp": lambda: GPSearch(seed=1, n_startup_trials=4),
    "bohb": lambda: TuneBOHB(seed=1),
    "limited": lambda: ConcurrencyLimiter(TPESearch(seed=1, n_startup_trials=4), 3, batch=True),
    "repeated": lambda: Repeater(TPESearch(seed=1, n_startup_trials=4), 2),
    "points first": lambda: TPESearch(seed=1, n_startup_trials=4, points_to_evaluate=[{"x": 0.5}]),
    "own": Own,
    "optuna": optuna,
    "grids and chance": lambda: tune.search.BasicVariantGenerator(random_state=3),
}


class Ends(tune.Callback):
    def __init__(self, count):
        self.left = count

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def trains(config):
    for step in range(1, 3):
        tune.report({"loss": config["x"] + config["step"] / step})


def tuner_of(folder, search, callbacks=None):
    config = tune.TuneConfig(metric="loss", mode="min", num_samples=TRIALS, search_alg=search, max_concurrent_trials=1)
    run = tune.RunConfig(name="exp", storage_path=str(folder), verbose=0, callbacks=callbacks)
    space = {} if isinstance(search, Own) else {**SPACE}
    return tune.Tuner(trains, param_space=space, tune_config=config, run_config=run)


@pytest.mark.parametrize("name", MAKERS)
def test_a_resumed_experiment_goes_on_with_the_same_sequence(shared_ray, tmp_path, name):
    whole = [result.config for result in tuner_of(tmp_path / "whole", MAKERS[name]()).fit()]
    for count in (15, 9):
        tuner = (
            tune.Tuner.restore(str(tmp_path / "cut" / "exp"), trains)
            if (tmp_path / "cut" / "exp").exists()
            else tuner_of(tmp_path / "cut", MAKERS[name]())
        )
        tuner._run_config.callbacks = [Ends(count)]
        with pytest.raises(KeyboardInterrupt):
            tuner.fit()
    again = tune.Tuner.restore(str(tmp_path / "cut" / "exp"), trains)
    again._run_config.callbacks = None
    # To look at it changes nothing about how it goes on.
    looked = again.get_results()
    assert [result.config for result in looked] == whole[: len(looked)]
    assert [result.config for result in again.fit()] == whole
