"""Functions to minimise, each with the value of its minimum: for searchers of any make."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol


class Suggest(Protocol):
    """How a function asks for its parameters, one after the other, as Optuna's trials do."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...
    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int: ...
    def suggest_categorical(self, name: str, choices: list[str]) -> str: ...


@dataclass(frozen=True)
class Problem:
    """A function by its parameters' names, its space in Optuna's words and in ours, and its least value."""

    title: str
    objective: Callable[[dict[str, Any]], float]
    ask: Callable[[Suggest], dict[str, Any]]
    #: Given our module of domains.
    space: Callable[[Any], dict[str, Any]]
    least: float


def _box(count: int, low: float, high: float) -> Callable[[Suggest], dict[str, Any]]:
    return lambda trial: {f"x{i}": trial.suggest_float(f"x{i}", low, high) for i in range(count)}


def _branin(config: dict[str, Any]) -> float:
    x, y = config["x0"], config["x1"]
    b, c, t = 5.1 / (4 * math.pi**2), 5 / math.pi, 1 / (8 * math.pi)
    return (y - b * x * x + c * x - 6) ** 2 + 10 * (1 - t) * math.cos(x) + 10


_HEIGHTS = (1.0, 1.2, 3.0, 3.2)
_STEEPNESS = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def _hartmann(config: dict[str, Any]) -> float:
    x = [config[f"x{i}"] for i in range(6)]
    hills = zip(_HEIGHTS, _STEEPNESS, _CENTRES, strict=True)
    return -sum(h * math.exp(-sum(a * (v - p) ** 2 for a, v, p in zip(s, x, c, strict=True))) for h, s, c in hills)


def _rosenbrock(config: dict[str, Any]) -> float:
    x = [config[f"x{i}"] for i in range(10)]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in pairwise(x))


def _ask_mixed(trial: Suggest) -> dict[str, Any]:
    kind = trial.suggest_categorical("kind", ["kernel", "forest", "net"])
    config: dict[str, Any] = {"kind": kind, "scale": trial.suggest_float("scale", 1e-3, 10, log=True)}
    if kind == "kernel":
        config["shape"] = trial.suggest_categorical("shape", ["round", "poly"])
        config["c"] = trial.suggest_float("c", 1e-3, 1e3, log=True)
        if config["shape"] == "round":
            config["gamma"] = trial.suggest_float("gamma", 1e-4, 10, log=True)
        else:
            config["degree"] = trial.suggest_int("degree", 2, 6)
    elif kind == "forest":
        config["trees"] = trial.suggest_int("trees", 10, 1000, log=True)
        config["depth"] = trial.suggest_int("depth", 1, 32)
    else:
        config["layers"] = trial.suggest_int("layers", 1, 5)
        config["units"] = trial.suggest_int("units", 16, 256, step=16)
        config["rate"] = trial.suggest_float("rate", 1e-5, 1, log=True)
        config["dropout"] = trial.suggest_float("dropout", 0.0, 0.6, step=0.05)
    return config


def _mixed_space(tune: Any) -> dict[str, Any]:
    forms = [{"shape": "round", "gamma": tune.loguniform(1e-4, 10)}, {"shape": "poly", "degree": tune.randint(2, 7)}]
    models = [
        {"kind": "kernel", "c": tune.loguniform(1e-3, 1e3), "form": tune.choice(forms)},
        {"kind": "forest", "trees": tune.lograndint(10, 1001), "depth": tune.randint(1, 33)},
        {
            "kind": "net",
            "layers": tune.randint(1, 6),
            "units": tune.qrandint(16, 256, 16),
            "rate": tune.loguniform(1e-5, 1),
            "dropout": tune.quniform(0.0, 0.6, 0.05),
        },
    ]
    return {"scale": tune.loguniform(1e-3, 10), "model": tune.choice(models)}


def _mixed(config: dict[str, Any]) -> float:
    """Three kinds of models with an error each: the one with most parameters is the best, if all of them are right."""
    error = 0.05 * math.log10(config["scale"] / 0.1) ** 2
    if config["kind"] == "kernel":
        error += 0.20 + 0.02 * math.log10(config["c"] / 10) ** 2
        if config["shape"] == "round":
            return error + 0.05 * math.log10(config["gamma"] / 0.01) ** 2
        return error + 0.05 + 0.03 * abs(config["degree"] - 3)
    if config["kind"] == "forest":
        return error + 0.12 + 0.03 * math.log10(1000 / config["trees"]) ** 2 + 0.001 * (config["depth"] - 14) ** 2
    error += 0.03 * (config["layers"] - 3) ** 2 + 4e-6 * (config["units"] - 160) ** 2
    return error + 0.15 * math.log10(config["rate"] / 3e-3) ** 2 + 0.8 * (config["dropout"] - 0.2) ** 2


def _uniform(count: int, low: float, high: float) -> Callable[[Any], dict[str, Any]]:
    return lambda tune: {f"x{i}": tune.uniform(low, high) for i in range(count)}


PROBLEMS: dict[str, Problem] = {
    "branin": Problem(
        "Branin",
        _branin,
        lambda trial: {"x0": trial.suggest_float("x0", -5, 10), "x1": trial.suggest_float("x1", 0, 15)},
        lambda tune: {"x0": tune.uniform(-5, 10), "x1": tune.uniform(0, 15)},
        0.39788735772973816,
    ),
    "hartmann6": Problem("Hartmann-6", _hartmann, _box(6, 0, 1), _uniform(6, 0, 1), -3.322368011415515),
    "rosenbrock10": Problem("Rosenbrock-10", _rosenbrock, _box(10, -5, 10), _uniform(10, -5, 10), 0.0),
    "mixed": Problem("mixed conditional", _mixed, _ask_mixed, _mixed_space, 0.0),
}
