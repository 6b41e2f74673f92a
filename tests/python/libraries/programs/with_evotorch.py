"""A search whose population two actors judge."""

import ray
import torch
from evotorch import Problem
from evotorch.algorithms import SNES


def sphere(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x**2)


if __name__ == "__main__":
    ray.init(num_cpus=2)
    problem = Problem("min", sphere, solution_length=4, initial_bounds=(-3, 3), num_actors=2)
    search = SNES(problem, stdev_init=2.0, popsize=20)
    search.run(30)
    best = float(search.status["best_eval"])
    assert best < 1.0, best
    print("evotorch ran on eagleray", ray.__name__, best)
