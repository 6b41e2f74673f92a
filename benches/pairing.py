"""Whether a build is slower than another, judged by pairs of measurements that were made one right after the other.

What disturbs a machine lasts longer than a pair, so that it hits both halves and falls out of their ratio. The interval is
Wilcoxon's: it needs no normal distribution, and a few pairs that were disturbed in one half do not move it far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from statistics import median

#: The interval holds the true ratio with at least this probability.
CONFIDENCE = 0.95
#: A case has changed where its whole interval lies further from one than this.
TOLERANCE = 0.03
#: Below six pairs there is no interval of 95 %.
PAIRS_LEAST = 6


@dataclass(frozen=True)
class Verdict:
    """How many times faster the new build is, and between which figures that lies."""

    ratio: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        """Slower by more than the tolerance, beyond doubt."""
        return self.high < 1 - TOLERANCE

    @property
    def is_faster(self) -> bool:
        """Faster by more than the tolerance, beyond doubt."""
        return self.low > 1 + TOLERANCE

    @property
    def word(self) -> str:
        """For the table."""
        if self.is_slower:
            return "SLOWER"
        return "faster" if self.is_faster else "same"


def judge(ratios: list[float]) -> Verdict:
    """The verdict on a case, from one ratio per pair: above one where the new build was faster."""
    logs = [math.log(ratio) for ratio in ratios]
    means = sorted((a + b) / 2 for a, b in combinations_with_replacement(logs, 2))
    left_out = _left_out(len(logs))
    return Verdict(math.exp(median(means)), math.exp(means[left_out]), math.exp(means[-1 - left_out]))


def _left_out(pairs: int) -> int:
    """How many of the mean logarithms of two pairs lie outside the interval at each end."""
    if pairs < PAIRS_LEAST:
        raise ValueError(f"an interval of {CONFIDENCE:.0%} needs {PAIRS_LEAST} pairs; there are {pairs}")
    # In how many of the ways to give each rank a sign the ranks of the positive ones add up to each sum.
    ways = [1]
    for rank in range(1, pairs + 1):
        ways = [
            (ways[total] if total < len(ways) else 0) + (ways[total - rank] if total >= rank else 0)
            for total in range(len(ways) + rank)
        ]
    allowed = (1 - CONFIDENCE) / 2 * 2**pairs
    least, passed = 0, ways[0]
    while passed + ways[least + 1] <= allowed:
        least += 1
        passed += ways[least]
    return least
