"""Trees that two actors grow together."""

import numpy as np
import ray
from xgboost_ray import RayDMatrix, RayParams, predict, train

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
    print("xgboost_ray ran on eagleray", ray.__name__, seen["train"]["error"][-1])
