"""Calls that may wait for an actor, calls that a worker may serve, values that come and go."""

import asyncio
import gc
import os

import ray
from _expect import error_of
from ray.exceptions import PendingCallsLimitExceeded

ray.init(num_cpus=1)


@ray.remote(num_cpus=0, max_pending_calls=2)
class Slow:
    def __init__(self):
        self.gate = asyncio.Event()

    async def wait(self):
        await self.gate.wait()

    async def open(self):
        self.gate.set()


@ray.remote(max_calls=1)
def pid():
    return os.getpid()


slow = Slow.remote()
waiting = [slow.wait.remote(), slow.wait.remote()]
error_of(slow.wait.remote, PendingCallsLimitExceeded)
ray.kill(slow)

assert len({ray.get(pid.remote()) for _ in range(3)}) == 3

ref = ray.put(bytes(1_000_000))
places = ray.experimental.get_object_locations([ref])
assert places[ref]["object_size"] >= 1_000_000
assert places[ref]["node_ids"] == [ray.get_runtime_context().get_node_id()]
del ref, places
gc.collect()
print("ok")
