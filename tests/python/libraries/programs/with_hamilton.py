"""A graph of functions, each of which is a task."""

import hamilton_functions
import ray
from hamilton import base, driver
from hamilton.plugins.h_ray import RayGraphAdapter

if __name__ == "__main__":
    ray.init(num_cpus=2)
    adapter = RayGraphAdapter(result_builder=base.DictResult())
    graph = driver.Driver({"start": 4}, hamilton_functions, adapter=adapter)
    assert graph.execute(["both", "second"]) == {"both": 45, "second": 40}
    print("hamilton ran on eagleray", ray.__name__)
