"""Cancelling what waits, what runs, what a coroutine catches."""

import asyncio
import time

import ray
from _expect import error_of
from ray.exceptions import RayTaskError, TaskCancelledError

ray.init(num_cpus=1)


@ray.remote
def sleep():
    time.sleep(3600)


@ray.remote(num_cpus=0)
class Patient:
    def __init__(self):
        self.seen = []
        self.began = asyncio.Event()

    async def wait(self):
        self.began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.seen.append("cancelled")

    async def has_begun(self):
        await self.began.wait()

    async def log(self):
        return self.seen


running, queued = sleep.remote(), sleep.remote()
ray.cancel(queued)
ray.cancel(running, force=True)
error_of(lambda: ray.get(queued), TaskCancelledError)
error_of(lambda: ray.get(running), ray.exceptions.RayError)

patient = Patient.remote()
call = patient.wait.remote()
ray.get(patient.has_begun.remote())
ray.cancel(call)
# It was cancelled, although its coroutine returned.
error = error_of(lambda: ray.get(call), RayTaskError)
assert isinstance(error, TaskCancelledError)
assert call.task_id().hex() in str(error)
assert ray.get(patient.log.remote()) == ["cancelled"]
print("ok")
