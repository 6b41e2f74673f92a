"""Methods in groups: a group that is busy holds up no other."""

import asyncio

import ray


@ray.remote(concurrency_groups={"io": 2, "compute": 1})
class Worker:
    def __init__(self):
        self.gate = asyncio.Event()

    @ray.method(concurrency_group="io")
    async def read(self):
        await asyncio.sleep(0)
        return "read"

    @ray.method(concurrency_group="compute")
    async def compute(self):
        return "computed"

    async def forever(self):
        await asyncio.sleep(3600)

    async def anything(self):
        return "done"


worker = Worker.remote()
blocked = worker.forever.options(concurrency_group="compute").remote()
assert ray.get([worker.read.remote() for _ in range(5)]) == ["read"] * 5
assert ray.get(worker.compute.options(concurrency_group="io").remote()) == "computed"
assert ray.get(worker.anything.remote()) == "done"
ready, rest = ray.wait([blocked], timeout=0)
assert not ready
print("ok")
