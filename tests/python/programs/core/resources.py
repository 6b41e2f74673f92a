"""What tasks ask for: CPUs in parts, resources of one's own, memory, kinds of accelerators, places."""

import ray
from _expect import error_of
from ray.util.accelerators import NVIDIA_TESLA_V100
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(num_cpus=2, resources={"licence": 1, f"accelerator_type:{NVIDIA_TESLA_V100}": 1})


@ray.remote(num_cpus=0.5, resources={"licence": 0.5}, memory=1024)
def needs():
    return ray.get_runtime_context().get_assigned_resources()


@ray.remote
def where():
    return ray.get_runtime_context().get_node_id()


got = ray.get(needs.remote())
assert (got["CPU"], got["licence"], got["memory"]) == (0.5, 0.5, 1024)
assert ray.get(where.options(accelerator_type=NVIDIA_TESLA_V100).remote())
here = ray.nodes()[0]["NodeID"]
assert ray.get(where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False)).remote()) == here
assert ray.get(where.options(scheduling_strategy="SPREAD").remote()) == here
assert ray.cluster_resources()["licence"] == 1
impossible = where.options(num_cpus=50).remote()
assert ray.wait([impossible], timeout=0.1) == ([], [impossible])
ray.cancel(impossible)
assert "cannot be negative" in str(error_of(lambda: ray.remote(num_cpus=-1)(lambda: None), ValueError))
print("ok")
