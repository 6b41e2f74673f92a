"""How much of the metric's variation each parameter accounts for on its own.

Functional ANOVA over an ensemble of regression trees of our own (Hutter, Hoos, Leyton-Brown: An efficient approach for assessing
hyperparameter importance, ICML 2014). A tree cuts the space into boxes, each with a value. The mean over all other parameters is then a step
function of one parameter, whose variance can be written down exactly; divided by the variance of the whole tree, it is that parameter's
share. What the shares leave is due to parameters acting together.

Parameters are taken by rank, so that only their order matters and not their scale, and so that shares are those of the region that was in
fact tried. The trees are fitted to samples with repetition; how well they predict the trials that a sample left out is reported as
`explained`, since shares of a model that predicts nothing mean nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagleray.tune.plots._runs import Run, check, columns, number_of, parameters, runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_TREES = 64
_LEAF_MIN = 3
_DEPTH_MAX = 12
#: More trials than this are sampled: the shares do not get better.
_ROWS_MAX = 2_000
_TRIALS_MIN = 4
_SEED = 20_240_229


@dataclass(frozen=True)
class Importance:
    """What `importance_of` found."""

    #: Parameter to its share of the variance, largest first; they sum up to at most 1.
    shares: dict[str, float]
    #: What no parameter accounts for on its own.
    together: float
    #: How much of the variance the trees predict of trials that they have not seen; 0 or less: nothing can be said.
    explained: float
    #: How many trials have a finite value.
    trials: int


def importance_of(results: Any, metric: str, mode: str = "min", scope: str = "last") -> Importance:
    """Say how much each parameter mattered for the metric, without drawing it."""
    check(mode, scope)
    return _of_runs(runs(results, metric), mode, scope)


def _of_runs(found: list[Run], mode: str, scope: str) -> Importance:
    try:
        import numpy as np
    except ImportError as error:
        raise ImportError("parameter importance needs numpy: pip install 'eagleray[plots]'") from error
    found = [run for run in found if math.isfinite(run.value(scope, mode))]
    keys = parameters(found)
    if len(found) < _TRIALS_MIN or not keys:
        raise ValueError(
            f"importance needs {_TRIALS_MIN} trials with a value and a parameter that varies; there are {len(found)} and {len(keys)}"
        )
    values = np.array([run.value(scope, mode) for run in found])
    table = np.column_stack([_unit(list(columns(found, key)), values) for key in keys])
    # Ranks again: one trial that diverged must not be all there is to explain.
    target = _ranks(values)
    shares, explained = _forest(table, target)
    order = sorted(range(len(keys)), key=lambda place: -shares[place])
    total = sum(shares)
    scale = 1 / total if total > 1 else 1.0
    return Importance(
        {keys[place]: shares[place] * scale for place in order},
        max(0.0, 1 - total),
        explained,
        len(found),
    )


def _unit(column: Sequence[Any], values: Floats) -> Floats:
    """Bring a parameter to [0, 1]: numbers by rank, others by how good they were on average. What is missing is a choice too."""
    import numpy as np

    numbers = [number_of(value) for value in column]
    if all(number is not None for number in numbers):
        return _ranks(np.array(numbers, dtype=float))
    names = [repr(value) for value in column]
    known = sorted(set(names))
    means = {name: float(values[[other == name for other in names]].mean()) for name in known}
    known.sort(key=lambda name: means[name])
    places = {name: place for place, name in enumerate(known)}
    return np.array([(places[name] + 0.5) / len(known) for name in names])


def _ranks(numbers: Floats) -> Floats:
    """Ranks in (0, 1); equal numbers have equal ones."""
    import numpy as np

    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middle: Floats = (ends - counts / 2) / len(numbers)
    return middle[inverse]


def _forest(table: Floats, target: Floats) -> tuple[list[float], float]:
    import numpy as np

    random = np.random.default_rng(_SEED)
    if len(target) > _ROWS_MAX:
        some = random.permutation(len(target))[:_ROWS_MAX]
        table, target = table[some], target[some]
    count, width = table.shape
    shares = np.zeros(width)
    told = 0
    guesses, votes = np.zeros(count), np.zeros(count)
    for _ in range(_TREES):
        rows = random.integers(0, count, count)
        boxes, leaves = _tree(table[rows], target[rows], random)
        found = _shares(boxes, leaves)
        if found is not None:
            shares += found
            told += 1
        unseen = np.setdiff1d(np.arange(count), rows)
        guesses[unseen] += _predict(boxes, leaves, table[unseen])
        votes[unseen] += 1
    seen = votes > 0
    spread = float(((target[seen] - target[seen].mean()) ** 2).sum())
    missed = float(((target[seen] - guesses[seen] / votes[seen]) ** 2).sum())
    explained = 1 - missed / spread if spread > 0 else 0.0
    return [float(share) for share in shares / max(told, 1)], explained


def _tree(table: Floats, target: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Give the boxes of a tree, (leaf, parameter, low and high), and the value of each."""
    import numpy as np

    width = table.shape[1]
    boxes, leaves = [], []
    whole = np.tile([0.0, 1.0], (width, 1))
    todo = [(np.arange(len(target)), whole, 0)]
    while todo:
        rows, box, depth = todo.pop()
        cut = _cut(table[rows], target[rows], random) if depth < _DEPTH_MAX else None
        if cut is None:
            boxes.append(box)
            leaves.append(target[rows].mean())
            continue
        place, at = cut
        is_low = table[rows, place] <= at
        low, high = box.copy(), box.copy()
        low[place, 1] = high[place, 0] = at
        todo += [(rows[is_low], low, depth + 1), (rows[~is_low], high, depth + 1)]
    return np.array(boxes), np.array(leaves)


def _cut(table: Floats, target: Floats, random: np.random.Generator) -> tuple[int, float] | None:
    """Choose the best of one random cut for each parameter."""
    import numpy as np

    if len(target) < 2 * _LEAF_MIN or np.ptp(target) == 0:
        return None
    low, high = table.min(axis=0), table.max(axis=0)
    at = low + random.random(len(low)) * (high - low)
    is_low = table <= at
    lows = is_low.sum(axis=0)
    highs = len(target) - lows
    sums = target @ is_low
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = sums**2 / lows + (target.sum() - sums) ** 2 / highs
    gain[(lows < _LEAF_MIN) | (highs < _LEAF_MIN) | (high <= low)] = -np.inf
    place = int(np.argmax(gain))
    return None if gain[place] == -np.inf else (place, float(at[place]))


def _shares(boxes: Floats, leaves: Floats) -> Floats | None:
    """Give each parameter's share of the tree's variance; None if the tree is flat."""
    import numpy as np

    sizes = boxes[:, :, 1] - boxes[:, :, 0]
    volumes = sizes.prod(axis=1)
    mean = float(volumes @ leaves)
    variance = float(volumes @ (leaves - mean) ** 2)
    if variance <= 1e-12:
        return None
    found = np.zeros(boxes.shape[1])
    for place in range(boxes.shape[1]):
        edges = np.unique(boxes[:, place])
        middles = (edges[1:] + edges[:-1]) / 2
        inside = (boxes[:, place, 0, None] <= middles) & (middles < boxes[:, place, 1, None])
        weights = (volumes / sizes[:, place])[:, None] * inside
        steps = leaves @ weights
        found[place] = float(((steps - mean) ** 2) @ np.diff(edges)) / variance
    return found


def _predict(boxes: Floats, leaves: Floats, table: Floats) -> Floats:
    import numpy as np

    inside = (boxes[None, :, :, 0] < table[:, None, :]) & (table[:, None, :] <= boxes[None, :, :, 1])
    found: Floats = leaves[np.argmax(inside.all(axis=2), axis=1)]
    return found
