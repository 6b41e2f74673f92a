"""Data frames in parts, one task for each."""

import os

os.environ["MODIN_ENGINE"] = "ray"
os.environ["MODIN_CPUS"] = "2"

import modin.pandas as pd
import ray

if __name__ == "__main__":
    ray.init(num_cpus=2)
    frame = pd.DataFrame({"key": [number % 3 for number in range(3000)], "value": range(3000)})
    assert frame["value"].sum() == 2999 * 1500
    sums = frame.groupby("key")["value"].sum()
    assert list(sums) == [1498500, 1499500, 1500500]
    assert frame.merge(frame.head(10), on="value").shape == (10, 3)
    assert (frame.value.apply(lambda value: value + 1).max()) == 3000
    print("modin ran on eagleray", ray.__name__)
