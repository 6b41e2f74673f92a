"""How a network's numbers choose actions, over numpy: scores for choices, means and then logarithms of deviations for numbers.

They mean the same to built-in networks (`crates/rl/src/dist`) and to a program's own (`_engine/torch/_dist.py`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Acted, Floats

HALF_LN_TAU = 0.5 * math.log(2 * math.pi)


class Categorical:
    """One choice of each of `sizes`, from a score per choice."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = list(sizes)
        self._ends = np.cumsum(self.sizes)[:-1].tolist()

    def draw(self, inputs: Floats, chance: np.random.Generator | None) -> Floats:
        """An action for each row: drawn, or without chance the likeliest."""
        columns = []
        for scores in np.split(inputs, self._ends, axis=-1):
            if chance is None:
                columns.append(scores.argmax(-1))
                continue
            wide = scores.astype(np.float64)
            sums = np.exp(wide - wide.max(-1, keepdims=True)).cumsum(-1)
            # Below the whole sum, so that what has no probability is never chosen, wherever it stands.
            at = chance.random((len(wide), 1)) * sums[:, -1:]
            columns.append((sums <= at).sum(-1))
        return np.stack(columns, -1).astype(np.float32)

    def logp(self, inputs: Floats, actions: Floats) -> Floats:
        """The logarithms of the actions' probabilities."""
        total = np.zeros(len(inputs), np.float32)
        rows = np.arange(len(inputs))
        for index, scores in enumerate(np.split(inputs, self._ends, axis=-1)):
            most = scores.max(-1, keepdims=True)
            whole = np.log(np.exp(scores - most).sum(-1)) + most[:, 0]
            total += scores[rows, actions[:, index].astype(np.int64)] - whole
        return total


class Gaussian:
    """Numbers, from a mean of each and then the logarithm of each deviation."""

    def __init__(self, size: int) -> None:
        self._size = size

    def draw(self, inputs: Floats, chance: np.random.Generator | None) -> Floats:
        """An action for each row: drawn, or without chance the likeliest."""
        means, logs = inputs[:, : self._size], inputs[:, self._size :]
        if chance is None:
            return np.ascontiguousarray(means)
        return (means + np.exp(logs) * chance.standard_normal(means.shape)).astype(np.float32)

    def logp(self, inputs: Floats, actions: Floats) -> Floats:
        """The logarithms of the actions' densities."""
        means, logs = inputs[:, : self._size], inputs[:, self._size :]
        away = (actions - means) * np.exp(-logs)
        found: Floats = -(0.5 * away * away + logs + np.float32(HALF_LN_TAU)).sum(-1)
        return found


class Mixed:
    """Choices and then numbers, drawn apart from each other: scores, means, logarithms of deviations."""

    def __init__(self, choices: tuple[int, ...], numbers: int) -> None:
        self._choices, self._numbers = Categorical(choices), Gaussian(numbers)
        self._scores, self._count = sum(choices), len(choices)

    def draw(self, inputs: Floats, chance: np.random.Generator | None) -> Floats:
        """An action for each row: drawn, or without chance the likeliest."""
        choices = self._choices.draw(inputs[:, : self._scores], chance)
        return np.concatenate([choices, self._numbers.draw(inputs[:, self._scores :], chance)], -1)

    def logp(self, inputs: Floats, actions: Floats) -> Floats:
        """The logarithms of the actions' probabilities times densities."""
        choices = self._choices.logp(inputs[:, : self._scores], actions[:, : self._count])
        found: Floats = choices + self._numbers.logp(inputs[:, self._scores :], actions[:, self._count :])
        return found


def dist_of(acted: Acted) -> Categorical | Gaussian | Mixed:
    """The one for these actions."""
    if acted.kind == "mixed":
        return Mixed(acted.choices, len(acted.low))
    return Categorical(acted.sizes) if acted.kind == "discrete" else Gaussian(acted.size)
