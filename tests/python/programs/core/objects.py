"""put, get and wait; limits of time; a large value that all tasks share."""

import time

import numpy as np
import ray
from _expect import error_of
from ray.exceptions import GetTimeoutError


@ray.remote
def part_of(matrix, row):
    return float(matrix[row].sum())


@ray.remote
def slow(seconds):
    time.sleep(seconds)
    return seconds


shared = ray.put(np.ones((200, 1000)))
assert sum(ray.get([part_of.remote(shared, row) for row in range(5)])) == 5000
pending = slow.remote(60)
ready, rest = ray.wait([slow.remote(0), pending], num_returns=1, timeout=30)
assert (len(ready), rest) == (1, [pending])
error_of(lambda: ray.get(pending, timeout=0.01), GetTimeoutError)
ray.cancel(pending, force=True)
assert not ray.get(ray.put(np.zeros(3))).flags.writeable
print("ok")
