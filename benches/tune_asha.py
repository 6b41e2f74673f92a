"""ASHA against full training, on learning curves of our own making.

A table of curves stands for as many configurations: the accuracy of each rises towards an asymptote of its own at a speed of its own, with noise, and
so that curves cross: a third begin fast and end worse than slow ones, some jump late, some diverge and then report nan. ASHA (grace 1, reduction 3,
up to 81 epochs) is told of the curves as an engine with some places would tell it, and stops them; full training runs all to the end.

    python benches/tune_asha.py [--curves 512] [--seeds 20] [--places 8]

Each seed has a table of its own. Printed are how much worse the best that ASHA trained to the end is than the best there is, its rank among all, and
which share of all epochs was trained. Asked for are 1 % and 1/4.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys

from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers import ASHAScheduler

EPOCHS = 81
GAP_MAX = 0.01
EPOCHS_SHARE_MAX = 0.25


def curve(source: random.Random) -> list[float]:
    """The accuracy after each epoch of one configuration."""
    kind = source.random()
    asymptote = 0.2 + 0.75 * source.betavariate(2.4, 1.6)  # few are very good
    speed = math.exp(source.gauss(-2.0, 0.7))
    if kind < 0.33:  # fast at first, and no further: crosses the slow and good ones
        asymptote, speed = 0.1 + 0.6 * source.betavariate(2.4, 1.6), math.exp(source.gauss(-0.9, 0.4))
    start = source.uniform(0.05, 0.15)
    jump_at = source.uniform(5, 60) if kind > 0.92 else None  # a learning rate that is lowered, say
    diverges_at = source.uniform(3, 50) if 0.33 <= kind < 0.37 else None
    noise = math.exp(source.gauss(-5.0, 0.5))
    values = []
    for epoch in range(1, EPOCHS + 1):
        left = 0.7 * math.exp(-speed * epoch) + 0.3 / (1 + speed * epoch)
        value = asymptote - (asymptote - start) * left
        if jump_at is not None and epoch < jump_at:
            value *= 0.85
        if diverges_at is not None and epoch >= diverges_at:
            value = math.nan if epoch > diverges_at + 5 else value / 3
        values.append(value + source.gauss(0, noise))
    return values


class Bench:
    """An engine with places, and nothing but the table behind it. Time passes in epochs, one for all that run."""

    def __init__(self, table: list[list[float]], places: int, seed: int) -> None:
        self.table = table
        self.places = places
        self.search_alg = None
        self.scheduler = ASHAScheduler(
            metric="accuracy", mode="max", max_t=EPOCHS, reduction_factor=3, grace_period=1, seed=seed
        )
        self.trials = [
            Trial("curve", number=number, trial_id=f"{number:05}", config={}) for number in range(len(table))
        ]

    def get_trials(self) -> list[Trial]:
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def run(self) -> tuple[float, int]:
        """The best accuracy of those that were trained to the end, and how many epochs were trained."""
        order = iter(self.trials)
        running: list[tuple[Trial, int]] = []
        best, epochs = -math.inf, 0
        while True:
            while len(running) < self.places and (trial := next(order, None)) is not None:
                self.scheduler.on_trial_add(self, trial)
                running.append((trial, 0))
            if not running:
                return best, epochs
            still = []
            for trial, done in running:
                epochs += 1
                value = self.table[trial.number][done]
                result = {"training_iteration": done + 1, "accuracy": value}
                if self.scheduler.on_trial_result(self, trial, result) == ASHAScheduler.STOP:
                    self.scheduler.on_trial_complete(self, trial, result)
                    best = max(best, value) if done + 1 == EPOCHS and math.isfinite(value) else best
                else:
                    still.append((trial, done + 1))
            running = still


def interval(values: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval (Student's t for 20 values, near enough for others)."""
    half = 2.093 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.fmean(values), half


def crossings(table: list[list[float]]) -> float:
    """How often, of two curves, the one that leads after three epochs is the worse one in the end."""
    source = random.Random(0)
    pairs = [source.sample(table, 2) for _ in range(2_000)]
    finite = [(a, b) for a, b in pairs if math.isfinite(a[-1]) and math.isfinite(b[-1])]
    return sum((a[2] > b[2]) != (a[-1] > b[-1]) for a, b in finite) / len(finite)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--places", type=int, default=8)
    options = parser.parse_args()
    gaps, shares = [], []
    print(f"{options.curves} curves of {EPOCHS} epochs, {options.places} places")
    for seed in range(options.seeds):
        source = random.Random(seed)
        table = [curve(source) for _ in range(options.curves)]
        ends = sorted((values[-1] for values in table if math.isfinite(values[-1])), reverse=True)
        found, epochs = Bench(table, options.places, seed).run()
        gaps.append((ends[0] - found) / ends[0])
        shares.append(epochs / (len(table) * EPOCHS))
        print(
            f"seed {seed:2}: best {ends[0]:.4f}, ASHA's {found:.4f} (rank {ends.index(found) + 1}): {gaps[-1]:.3%} worse, "
            f"{shares[-1]:.1%} of the epochs; {crossings(table):.0%} of pairs cross"
        )
    gap, share = interval(gaps), interval(shares)
    beyond = sum(one > GAP_MAX for one in gaps)
    print(
        f"gap of the best: {gap[0]:.2%} +- {gap[1]:.2%} (asked: <= {GAP_MAX:.0%}); "
        f"worst {max(gaps):.2%}, more than asked with {beyond} of {len(gaps)} seeds"
    )
    print(
        f"share of epochs: {share[0]:.1%} +- {share[1]:.1%} (asked: <= {EPOCHS_SHARE_MAX:.0%}); worst {max(shares):.1%}"
    )
    is_good = sum(gap) <= GAP_MAX and max(shares) <= EPOCHS_SHARE_MAX
    print("holds" if is_good else "does NOT hold")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
