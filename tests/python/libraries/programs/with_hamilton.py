"""A graph of functions, each of which is a task."""

import ray
from hamilton import ad_hoc_utils, base, driver
from hamilton.plugins.h_ray import RayGraphAdapter


def first(start: int) -> int:
    return start + 1


def second(start: int) -> int:
    return start * 10


def both(first: int, second: int) -> int:
    return first + second


if __name__ == "__main__":
    ray.init(num_cpus=2)
    adapter = RayGraphAdapter(result_builder=base.DictResult())
    graph = driver.Driver({"start": 4}, ad_hoc_utils.create_temporary_module(first, second, both), adapter=adapter)
    assert graph.execute(["both", "second"]) == {"both": 45, "second": 40}
    print("hamilton ran on eagleray", ray.__name__)
