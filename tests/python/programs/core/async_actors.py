"""Coroutines that wait for one another in one actor, threads beside them, refs that are awaited."""

import asyncio
import threading

import ray


@ray.remote
class Signal:
    def __init__(self):
        self.event = asyncio.Event()

    async def send(self):
        self.event.set()

    async def wait(self):
        await self.event.wait()
        return "sent"


@ray.remote(max_concurrency=2)
class Threads:
    def __init__(self):
        self.both = threading.Barrier(2, timeout=30)

    def meet(self):
        self.both.wait()
        return threading.get_ident()


@ray.remote
def double(number):
    return 2 * number


@ray.remote
class Gatherer:
    async def gather(self, numbers):
        return sum(await asyncio.gather(*[double.remote(number) for number in numbers]))


signal = Signal.remote()
waiting = [signal.wait.remote() for _ in range(3)]
ray.get(signal.send.remote())
assert ray.get(waiting) == ["sent"] * 3

threads = Threads.remote()
assert len(set(ray.get([threads.meet.remote(), threads.meet.remote()]))) == 2

assert ray.get(Gatherer.remote().gather.remote([1, 2, 3])) == 12


async def main():
    return await asyncio.wrap_future(double.remote(4).future()), await double.remote(5)


assert asyncio.run(main()) == (8, 10)
print("ok")
