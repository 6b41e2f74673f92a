"""FLAML's own search, over trials that run on Ray's Tune."""

import ray
from flaml import tune


def objective(config):
    return {"loss": (config["x"] - 3) ** 2 + abs(config["y"])}


if __name__ == "__main__":
    ray.init(num_cpus=2)
    analysis = tune.run(
        objective,
        config={"x": tune.uniform(-10, 10), "y": tune.uniform(-1, 1)},
        metric="loss",
        mode="min",
        num_samples=30,
        use_ray=True,
        verbose=0,
    )
    assert len(analysis.trials) == 30, len(analysis.trials)
    best = analysis.best_result["loss"]
    assert best < 30, best
    print("flaml_tune ran on eagleray", ray.__name__, best)
