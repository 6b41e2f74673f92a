"""ActorPool, Queue, multiprocessing.Pool, results as they come."""

import ray
from _expect import error_of
from ray.util import ActorPool, as_completed, map_unordered
from ray.util.multiprocessing import Pool
from ray.util.queue import Empty, Queue

ray.init(num_cpus=2)


@ray.remote(num_cpus=0)
class Doubler:
    def double(self, value):
        return 2 * value


@ray.remote(num_cpus=0)
def produce(queue, count):
    for number in range(count):
        queue.put(number)


@ray.remote
def negate(value):
    return -value


pool = ActorPool([Doubler.remote(), Doubler.remote()])
assert list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2, 3])) == [2, 4, 6]
assert sorted(pool.map_unordered(lambda actor, value: actor.double.remote(value), [1, 2, 3])) == [2, 4, 6]
pool.submit(lambda actor, value: actor.double.remote(value), 21)
assert pool.has_next()
assert pool.get_next() == 42

queue = Queue(maxsize=2)
producer = produce.remote(queue, 5)
assert [queue.get(timeout=30) for _ in range(5)] == [0, 1, 2, 3, 4]
error_of(lambda: queue.get(block=False), Empty)
queue.shutdown()

assert sorted(as_completed([negate.remote(number) for number in range(3)])) == [-2, -1, 0]
assert sorted(map_unordered(negate, range(3))) == [-2, -1, 0]

with Pool(2) as processes:
    assert processes.map(abs, [-1, -2, 3]) == [1, 2, 3]
    assert processes.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
    assert list(processes.imap(abs, [-1, -2])) == [1, 2]
    assert processes.apply_async(divmod, (7, 2)).get(timeout=30) == (3, 1)
print("ok")
