"""A search over settings of scikit-learn's, on a grid and at random."""

import warnings

import ray
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier
from tune_sklearn import TuneGridSearchCV, TuneSearchCV

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    ray.init(num_cpus=2)
    features, labels = make_classification(n_samples=200, n_features=8, random_state=1)
    grid = TuneGridSearchCV(SGDClassifier(random_state=1), {"alpha": [1e-4, 1e-1], "epsilon": [0.01, 0.1]}, verbose=0)
    grid.fit(features, labels)
    assert len(grid.cv_results_["params"]) == 4
    drawn = TuneSearchCV(SGDClassifier(random_state=1), {"alpha": [1e-4, 1e-3, 1e-2, 1e-1]}, n_trials=3, verbose=0)
    drawn.fit(features, labels)
    assert drawn.score(features, labels) > 0.7
    print("tune_sklearn ran on eagleray", ray.__name__, grid.best_params_, drawn.best_params_)
