"""Ways of working that Ray's documentation recommends."""

import ray

ray.init(num_cpus=2)


@ray.remote
def work(item):
    return item * item


# So many calls under way at most.
results, under_way = [], []
for item in range(10):
    if len(under_way) >= 3:
        ready, under_way = ray.wait(under_way)
        results += ray.get(ready)
    under_way.append(work.remote(item))
results += ray.get(under_way)
assert sorted(results) == [item * item for item in range(10)]


# A tree of actors: a supervisor with workers of its own.
@ray.remote(num_cpus=0)
class Worker:
    def work(self, item):
        return item + 1


@ray.remote(num_cpus=0)
class Supervisor:
    def __init__(self, count):
        self.workers = [Worker.remote() for _ in range(count)]

    def work(self, items):
        calls = [self.workers[at % len(self.workers)].work.remote(item) for at, item in enumerate(items)]
        return ray.get(calls)


assert ray.get(Supervisor.remote(2).work.remote([1, 2, 3])) == [2, 3, 4]


# Many small items in one call.
@ray.remote
def work_on_many(items):
    return [item * item for item in items]


batches = [range(start, start + 50) for start in range(0, 200, 50)]
done = ray.get([work_on_many.remote(list(batch)) for batch in batches])
assert [item for batch in done for item in batch] == [item * item for item in range(200)]


# A value that is needed by many is put once; refs go where values would.
@ray.remote
def count(words, letter):
    return sum(word.startswith(letter) for word in words)


words = ray.put(["apple", "avocado", "banana"])
assert ray.get([count.remote(words, letter) for letter in "abc"]) == [2, 1, 0]


# Work in progress that checks in with the driver.
@ray.remote(num_cpus=0)
class Progress:
    def __init__(self):
        self.done = 0

    def tick(self):
        self.done += 1

    def get(self):
        return self.done


@ray.remote
def step(progress):
    ray.get(progress.tick.remote())


progress = Progress.remote()
ray.get([step.remote(progress) for _ in range(4)])
assert ray.get(progress.get.remote()) == 4
print("ok")
