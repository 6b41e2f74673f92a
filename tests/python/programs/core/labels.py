"""Nodes with labels, and tasks that ask for some."""

import ray
from ray.util.scheduling_strategies import In, NodeLabelSchedulingStrategy

ray.init(num_cpus=1, labels={"region": "north"})


@ray.remote
def where():
    return ray.get_runtime_context().get_node_labels()["region"]


assert ray.get(where.options(label_selector={"region": "in(north,south)"}).remote()) == "north"
strategy = NodeLabelSchedulingStrategy({"region": In("north")})
assert ray.get(where.options(scheduling_strategy=strategy).remote()) == "north"
elsewhere = where.options(label_selector={"region": "south"}).remote()
assert ray.wait([elsewhere], timeout=0.1) == ([], [elsewhere])
ray.cancel(elsewhere)
print("ok")
