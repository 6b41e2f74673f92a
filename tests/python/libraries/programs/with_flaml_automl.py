"""FLAML's AutoML with trials on Ray's Tune."""

import ray
from flaml import AutoML
from sklearn.datasets import load_iris

if __name__ == "__main__":
    ray.init(num_cpus=2)
    features, labels = load_iris(return_X_y=True)
    automl = AutoML()
    automl.fit(
        features,
        labels,
        task="classification",
        time_budget=20,
        max_iter=6,
        estimator_list=["rf", "extra_tree"],
        n_concurrent_trials=2,
        n_jobs=1,
        verbose=0,
    )
    score = (automl.predict(features) == labels).mean()
    assert score > 0.8, score
    print("flaml_automl ran on eagleray", ray.__name__, automl.best_estimator, score)
