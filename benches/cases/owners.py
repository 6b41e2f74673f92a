"""A process dies that made refs which others hold."""

from __future__ import annotations

import os
import signal

from cases.catalog import BATCH, Ray, case
from measure import Job


@case("an owner is killed: 1,000 refs of its are read", unit="s", goal=1)
def owner_killed(ray: Ray) -> Job:
    """An actor puts 1,000 values and gives their refs away; it is killed, and all are read. Its start and its puts count, too."""

    @ray.remote(num_cpus=0)
    class Owner:
        def make(self) -> tuple[int, list[object]]:
            return os.getpid(), [ray.put(number) for number in range(BATCH)]

    def job(repeats: int) -> None:
        for _ in range(repeats):
            owner = Owner.remote()
            pid, refs = ray.get(owner.make.remote())
            os.kill(pid, signal.SIGKILL)
            assert ray.get(refs, timeout=60) == list(range(BATCH))

    return job
