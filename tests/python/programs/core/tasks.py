"""Functions become tasks: values in, refs out, several returns, options of a single call."""

import ray


@ray.remote
def square(number):
    return number * number


@ray.remote(num_returns=3)
def split(text):
    return text.split("-")


@ray.remote(num_cpus=0.5, max_retries=1)
def total(*numbers, scale=1):
    return scale * sum(numbers)


squares = [square.remote(number) for number in range(4)]
assert ray.get(squares) == [0, 1, 4, 9]
assert ray.get(split.remote("a-b-c")) == ["a", "b", "c"]
assert ray.get(total.remote(*squares, scale=2)) == 28
assert ray.get(total.options(name="sum of two", num_cpus=1).remote(square.remote(3), 1)) == 10
print("ok")
