"""Data sets that examples share. scikit-learn and Keras, which have them, must be installed."""

from __future__ import annotations

import importlib
from typing import Any


def get_iris_data(test_size: float = 0.2) -> tuple[Any, Any, Any, Any]:
    """Iris: features to train with, features to test with, and the labels of both."""
    data = importlib.import_module("sklearn.datasets").load_iris()
    features, labels = data["data"], data["target"].reshape(-1, 1)
    labels = importlib.import_module("sklearn.preprocessing").OneHotEncoder(sparse_output=False).fit_transform(labels)
    split = importlib.import_module("sklearn.model_selection").train_test_split
    train_x, test_x, train_y, test_y = split(features, labels, test_size=test_size)
    return train_x, train_y, test_x, test_y


def get_mnist_data() -> tuple[Any, Any, Any, Any, tuple[int, ...]]:
    """Digits as Keras has them: what to train and to test with, and the shape of a picture."""
    keras = importlib.import_module("keras")
    (train_x, train_y), (test_x, test_y) = keras.datasets.mnist.load_data()
    shape = (28, 28, 1)
    pictures = [each.reshape((-1, *shape)).astype("float32") / 255 for each in (train_x, test_x)]
    labels = [keras.utils.to_categorical(each, 10) for each in (train_y, test_y)]
    return pictures[0], labels[0], pictures[1], labels[1], shape


def set_keras_threads(threads: int) -> None:
    """So many threads of TensorFlow for this process."""
    threading = importlib.import_module("tensorflow").config.threading
    threading.set_inter_op_parallelism_threads(threads)
    threading.set_intra_op_parallelism_threads(threads)
