"""Resources that are set aside together, and tasks and actors in them."""

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init(num_cpus=2, resources={"disk": 1})


@ray.remote(num_cpus=1)
class Holder:
    def group(self):
        return ray.get_runtime_context().get_placement_group_id()


@ray.remote(num_cpus=1)
def inside():
    return ray.util.get_current_placement_group() is not None


group = placement_group([{"CPU": 1}, {"CPU": 1, "disk": 1}], strategy="PACK", name="pair")
ray.get(group.ready(), timeout=30)
assert group.bundle_count == 2
assert ray.available_resources().get("CPU", 0) == 0
holder = Holder.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0)).remote()
assert ray.get(holder.group.remote()) == group.id.hex()
strategy = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=1)
assert ray.get(inside.options(scheduling_strategy=strategy, resources={"disk": 0.5}).remote())
assert placement_group_table(group)["state"] == "CREATED"
assert ray.util.get_placement_group("pair").id == group.id

never = placement_group([{"CPU": 99}])
assert not never.wait(0.1)
remove_placement_group(never)
remove_placement_group(group)
assert ray.get(inside.remote()) is False
print("ok")
