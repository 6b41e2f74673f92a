"""scikit-learn's grid search and forests with joblib's backend."""

import joblib
import ray
from ray.util.joblib import register_ray
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

if __name__ == "__main__":
    ray.init(num_cpus=2)
    register_ray()
    features, labels = load_iris(return_X_y=True)
    with joblib.parallel_backend("ray"):
        search = GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [0.1, 1]}, cv=3).fit(features, labels)
        forest = RandomForestClassifier(20, random_state=1, n_jobs=2).fit(features, labels)
    assert search.best_score_ > 0.9, search.best_score_
    assert forest.score(features, labels) > 0.9
    print("sklearn ran on eagleray", ray.__name__, search.best_score_)
