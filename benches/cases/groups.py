"""Placement groups: their whole life."""

from __future__ import annotations

import importlib

from cases.catalog import Ray, case
from measure import Job


@case("placement group create + ready + remove", unit="groups/s", goal_times_ray=30)
def group_life(ray: Ray) -> Job:
    """A group of one bundle made, waited for and removed."""
    util = importlib.import_module(f"{ray.__name__}.util")

    def job(repeats: int) -> None:
        for _ in range(repeats):
            group = util.placement_group([{"CPU": 1}])
            ray.get(group.ready())
            util.remove_placement_group(group)

    return job
