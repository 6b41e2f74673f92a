"""Trees that two actors grow together, and trials that do so and report every round."""

import tempfile

import numpy as np
import ray
from ray import tune
from xgboost_ray import RayDMatrix, RayParams, predict, train
from xgboost_ray.tune import TuneReportCheckpointCallback

if __name__ == "__main__":
    ray.init(num_cpus=2)
    chance = np.random.default_rng(1)
    features = chance.normal(size=(400, 4)).astype(np.float32)
    labels = (features[:, 0] + features[:, 1] > 0).astype(np.float32)
    data = RayDMatrix(features, labels)
    seen = {}
    params = {"objective": "binary:logistic", "eval_metric": ["logloss", "error"]}
    model = train(
        params,
        data,
        num_boost_round=10,
        evals=[(data, "train")],
        evals_result=seen,
        verbose_eval=False,
        ray_params=RayParams(num_actors=2, cpus_per_actor=1),
    )
    assert seen["train"]["error"][-1] < 0.1, seen["train"]["error"]
    said = predict(model, RayDMatrix(features), ray_params=RayParams(num_actors=2, cpus_per_actor=1))
    assert ((said > 0.5) == labels).mean() > 0.9

    one = RayParams(num_actors=1, cpus_per_actor=1)

    def trial(config):
        callbacks = [TuneReportCheckpointCallback(frequency=2)]
        rows = RayDMatrix(features, labels)
        given = {**params, "max_depth": config["depth"]}
        train(given, rows, num_boost_round=4, evals=[(rows, "train")], ray_params=one, callbacks=callbacks)

    with tempfile.TemporaryDirectory() as folder:
        space = {"depth": tune.grid_search([1, 4])}
        resources = one.get_tune_resources()
        found = tune.run(trial, config=space, resources_per_trial=resources, storage_path=folder, verbose=0)
        assert [each.last_result["training_iteration"] for each in found.trials] == [4, 4]
        assert all(each.checkpoint is not None for each in found.trials)
        assert found.get_best_config("train-logloss", "min") == {"depth": 4}
    print("xgboost_ray ran on eagleray", ray.__name__, seen["train"]["error"][-1])
