"""Names of files and of results' keys that programs import."""

from __future__ import annotations

EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"
EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = "result.json"

TIMESTAMP = "timestamp"
TIME_THIS_ITER_S = "time_this_iter_s"
TRAINING_ITERATION = "training_iteration"

MODEL_KEY = "model"
TRAIN_DATASET_KEY = "train"
EVALUATION_DATASET_KEY = "evaluation"
PREPROCESSOR_KEY = "_preprocessor"
MAX_REPR_LENGTH = int(80 * 1.5)
