"""Trees that two actors grow together, by another library."""

import numpy as np
import ray
from lightgbm_ray import RayDMatrix, RayParams, train

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
    print("lightgbm_ray ran on eagleray", ray.__name__, errors[-1])
