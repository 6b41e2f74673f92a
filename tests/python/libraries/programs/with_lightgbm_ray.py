"""Trees that two actors grow together, by another library, and trials that do so and report every round."""

import tempfile

import numpy as np
import ray
from lightgbm_ray import RayDMatrix, RayParams, train
from lightgbm_ray.tune import TuneReportCheckpointCallback
from ray import tune

if __name__ == "__main__":
    # Each of its actors wants two cores, whatever the machine has.
    ray.init(num_cpus=4)
    chance = np.random.default_rng(1)
    features = chance.normal(size=(400, 4)).astype(np.float32)
    labels = (features[:, 0] + features[:, 1] > 0).astype(np.float32)
    data = RayDMatrix(features, labels)
    seen = {}
    train(
        {"objective": "binary", "metric": ["binary_logloss", "binary_error"]},
        data,
        num_boost_round=20,
        valid_sets=[data],
        valid_names=["train"],
        evals_result=seen,
        ray_params=RayParams(num_actors=2, cpus_per_actor=2),
    )
    errors = seen["train"]["binary_error"]
    assert errors[-1] < 0.1, errors

    one = RayParams(num_actors=1, cpus_per_actor=2)

    def trial(config):
        rows = RayDMatrix(features, labels)
        train(
            {"objective": "binary", "metric": ["binary_logloss"], "max_depth": config["depth"]},
            rows,
            num_boost_round=4,
            valid_sets=[rows],
            valid_names=["train"],
            ray_params=one,
            callbacks=[TuneReportCheckpointCallback(frequency=2)],
        )

    with tempfile.TemporaryDirectory() as folder:
        space = {"depth": tune.grid_search([1, 4])}
        resources = one.get_tune_resources()
        found = tune.run(trial, config=space, resources_per_trial=resources, storage_path=folder, verbose=0)
        assert [each.last_result["training_iteration"] for each in found.trials] == [4, 4]
        assert all(each.checkpoint is not None for each in found.trials)
        assert found.get_best_config("train-binary_logloss", "min") == {"depth": 4}
    print("lightgbm_ray ran on eagleray", ray.__name__, errors[-1])
