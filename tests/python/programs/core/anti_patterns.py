"""What one should not do, and what happens then."""

import ray
from _expect import error_of

ray.init(num_cpus=2)

#: A global is not shared: each process has its own.
counted = 0


@ray.remote
def count():
    global counted
    counted += 1
    return counted


ray.get([count.remote() for _ in range(5)])
assert counted == 0


@ray.remote
def one(number):
    return number


# Waiting in the loop is slow, and right.
assert [ray.get(one.remote(number)) for number in range(3)] == ray.get([one.remote(number) for number in range(3)])

# A large value that a function closes over is refused.
large = bytes(110_000_000)


@ray.remote
def closes_over():
    return len(large)


error = error_of(closes_over.remote, ValueError)
assert "is too large" in str(error)
assert "FUNCTION_SIZE_ERROR_THRESHOLD" in str(error)

# Functions, actors and methods are not called directly.
for call in (lambda: one(1), lambda: ray.remote(object)()):
    assert "remote" in str(error_of(call, TypeError))

# Refs of refs are not looked through.
assert isinstance(ray.get(one.remote([ray.put(1)]))[0], ray.ObjectRef)
# Neither a number nor a tuple can be waited for.
for bad, error_class in ((5, ValueError), ((1,), ValueError), ([5], TypeError)):
    assert "ObjectRef" in str(error_of(lambda bad=bad: ray.get(bad), error_class))
print("ok")
