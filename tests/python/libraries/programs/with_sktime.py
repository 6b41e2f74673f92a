"""sktime's evaluation of a forecaster with its backend `ray`."""

import ray
from sktime.datasets import load_airline
from sktime.forecasting.model_evaluation import evaluate
from sktime.forecasting.naive import NaiveForecaster
from sktime.split import ExpandingWindowSplitter

if __name__ == "__main__":
    ray.init(num_cpus=2)
    folds = ExpandingWindowSplitter(initial_window=72, step_length=24, fh=[1, 2, 3])
    given = {"forecaster": NaiveForecaster(strategy="last"), "y": load_airline(), "cv": folds}
    scores = evaluate(**given, backend="ray", backend_params={"shutdown_ray": False})
    alone = evaluate(**given)
    name = "test_MeanAbsolutePercentageError"
    assert list(scores[name]) == list(alone[name])
    print("sktime ran on eagleray", ray.__name__, len(scores))
