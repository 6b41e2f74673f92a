"""Tunes a small network: TPE proposes, ASHA stops what will come to nothing, a killed program goes on where it was.

    python examples/tune_network.py [FOLDER]    the experiment stays in FOLDER; without one, nothing is left

docs/tune.md goes through it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from eagleray import tune
from eagleray.tune.schedulers import ASHAScheduler
from eagleray.tune.search import TPESearch

NAME = "spirals"
TRIALS = 60
EPOCHS = 81

SPACE = {
    "lr": tune.loguniform(1e-3, 3.0),
    "momentum": tune.uniform(0.0, 0.98),
    "width": tune.lograndint(4, 129),
    "batch": tune.choice([16, 32, 64, 128]),
}


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals that wind around each other, with noise, and which of the two each belongs to."""
    random = np.random.default_rng(seed)
    which = np.arange(count) % 2
    turn = np.sqrt(random.uniform(0.02, 1.0, count)) * 1.25 * 2 * np.pi
    angle = turn + np.pi * which
    points = np.column_stack([np.cos(angle), np.sin(angle)]) * turn[:, None] / 5
    return points + random.normal(0, 0.15, points.shape), which.astype(float)


class Network:
    """Two layers, trained by stochastic gradient descent with momentum."""

    def __init__(self, width: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.weights = [
            random.normal(0, 1.0, (2, width)),
            random.normal(0, 1.0, width),
            random.normal(0, width**-0.5, width),
            np.zeros(1),
        ]
        self.speed = [np.zeros_like(weight) for weight in self.weights]

    def predict(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the hidden layer says, and how likely each point is of the second spiral."""
        inner, bias, outer, last = self.weights
        hidden = np.tanh(points @ inner + bias)
        return hidden, 1 / (1 + np.exp(-np.clip(hidden @ outer + last, -30, 30)))

    def learn(self, points: np.ndarray, labels: np.ndarray, lr: float, momentum: float) -> None:
        hidden, likely = self.predict(points)
        error = (likely - labels) / len(labels)
        back = np.outer(error, self.weights[2]) * (1 - hidden**2)
        slopes = [points.T @ back, back.sum(0), hidden.T @ error, error.sum(keepdims=True)]
        for weight, speed, slope in zip(self.weights, self.speed, slopes, strict=True):
            speed *= momentum
            speed -= lr * slope
            weight += speed

    def score(self, points: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Loss and accuracy."""
        likely = np.clip(self.predict(points)[1], 1e-9, 1 - 1e-9)
        loss = -np.mean(labels * np.log(likely) + (1 - labels) * np.log(1 - likely))
        return float(loss), float(np.mean((likely > 0.5) == labels))

    def save(self, folder: str, epoch: int) -> None:
        np.savez(Path(folder, "network.npz"), *self.weights, *self.speed, epoch=epoch)

    def load(self, folder: str) -> int:
        """Takes over what `save` wrote; returns the epoch."""
        with np.load(Path(folder, "network.npz")) as file:
            arrays = [file[f"arr_{place}"] for place in range(8)]
            self.weights, self.speed = arrays[:4], arrays[4:]
            return int(file["epoch"])


def train(config: dict[str, Any], points: np.ndarray, labels: np.ndarray) -> None:
    """One trial. It reports after each epoch and saves itself every third."""
    network, first = Network(config["width"], seed=0), 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            first = network.load(folder) + 1
    unseen = spirals(400, seed=2)
    for epoch in range(first, EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(points))
        for start in range(0, len(order), config["batch"]):
            rows = order[start : start + config["batch"]]
            network.learn(points[rows], labels[rows], config["lr"], config["momentum"])
        loss, accuracy = network.score(*unseen)
        if epoch % 3 < 2:
            tune.report({"loss": loss, "accuracy": accuracy})
            continue
        with tempfile.TemporaryDirectory() as folder:
            network.save(folder, epoch)
            tune.report({"loss": loss, "accuracy": accuracy}, checkpoint=tune.Checkpoint.from_directory(folder))


class Kill(tune.Callback):
    """Kills the program without warning, after some results. Restored with the experiment, it leaves that program alone."""

    def __init__(self, after: int) -> None:
        self.left, self.program = after, os.getpid()

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        self.left -= 1
        if self.left == 0 and self.program == os.getpid():
            os.kill(self.program, signal.SIGKILL)


def trainable() -> Any:
    """The training points lie once in shared memory, whatever the number of trials."""
    points, labels = spirals(800, seed=1)
    return tune.with_parameters(train, points=points, labels=labels)


def begin(folder: str) -> None:
    """The experiment. The callback is there to be rude: a program of your own leaves it out."""
    tune.Tuner(
        trainable(),
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=TRIALS,
            search_alg=TPESearch(seed=1),
            scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=3, reduction_factor=3),
        ),
        run_config=tune.RunConfig(
            name=NAME,
            storage_path=folder,
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            callbacks=[Kill(after=400)],
            verbose=0,
        ),
    ).fit()


def go_on(folder: str) -> None:
    """Takes the experiment up where it was killed, and looks at what came of it."""
    path = Path(folder, NAME)
    before = tune.ExperimentAnalysis(path)
    over = {trial.trial_id: trial.last_result for trial in before.trials if trial.is_finished()}
    print(f"killed: {len(over)} of {TRIALS} trials were over")

    results = tune.Tuner.restore(str(path), trainable()).fit()
    assert not results.errors, results.errors
    assert len(results) == TRIALS
    after = {trial.trial_id: trial.last_result for trial in tune.ExperimentAnalysis(path).trials}
    assert all(after[known]["loss"] == result["loss"] for known, result in over.items()), "what was over is not redone"

    best = results.get_best_result()
    epochs = sum(result.metrics["training_iteration"] for result in results)
    print(f"resumed:  {len(results)} trials, {epochs / (TRIALS * EPOCHS):.0%} of the epochs of training all to the end")
    print(f"best:     accuracy {best.metrics['accuracy']:.1%} with", short(best.config))
    assert epochs < 0.5 * TRIALS * EPOCHS

    network = Network(best.config["width"], seed=0)
    with best.checkpoint.as_directory() as kept:
        network.load(kept)
    _, accuracy = network.score(*spirals(2000, seed=3))
    print(f"its checkpoint on points that nobody has seen: {accuracy:.1%}")
    assert accuracy > 0.9, accuracy


def short(config: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in config.items())


def main(folder: str) -> None:
    killed = subprocess.run([sys.executable, __file__, "--begin", folder], check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    go_on(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--begin"]:
        begin(sys.argv[2])
    elif sys.argv[1:]:
        main(os.path.abspath(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(scratch)
