"""Values that come one by one, read plainly, from an event loop, by wait, with a bound on how far ahead they are."""

import asyncio

import ray
from _expect import error_of
from ray import ObjectRefGenerator


@ray.remote
def count(limit):
    yield from range(limit)


@ray.remote
class Reader:
    @ray.method(num_returns="streaming")
    def lines(self, text):
        yield from text.splitlines()

    async def letters(self, text):
        for letter in text:
            await asyncio.sleep(0)
            yield letter


numbers = count.remote(4)
assert isinstance(numbers, ObjectRefGenerator)
assert [ray.get(ref) for ref in numbers] == [0, 1, 2, 3]

bounded = count.options(_generator_backpressure_num_objects=2).remote(5)
ready, _ = ray.wait([bounded], timeout=30)
assert ready == [bounded]
assert ray.get(list(bounded)) == [0, 1, 2, 3, 4]

reader = Reader.remote()
assert [ray.get(line) for line in reader.lines.remote("a\nb")] == ["a", "b"]


async def read():
    return [await ref async for ref in reader.letters.remote("xyz")]


assert asyncio.run(read()) == ["x", "y", "z"]


@ray.remote
def breaks():
    yield "before"
    raise OSError("half way")


first, second = breaks.remote()
assert ray.get(first) == "before"
assert "half way" in str(error_of(lambda: ray.get(second), OSError))
print("ok")
