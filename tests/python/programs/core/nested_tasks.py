"""Tasks that call tasks, also more deeply than there are CPUs."""

import ray

ray.init(num_cpus=1)


@ray.remote
def fibonacci(number):
    if number < 2:
        return number
    return sum(ray.get([fibonacci.remote(number - 1), fibonacci.remote(number - 2)]))


@ray.remote
def start_later():
    return [fibonacci.remote(3)]


assert ray.get(fibonacci.remote(4)) == 3
(inner,) = ray.get(start_later.remote())
assert ray.get(inner) == 2
print("ok")
