"""A dynamic task graph: a tree of tasks that is built while it runs, each task waiting for the two it starts."""

import eagleray as ray


@ray.remote
def tree_sum(low: int, high: int) -> int:
    """Sum a range by halves."""
    if high - low <= 1000:
        return sum(range(low, high))
    middle = (low + high) // 2
    left, right = ray.get([tree_sum.remote(low, middle), tree_sum.remote(middle, high)])
    return left + right


if __name__ == "__main__":
    ray.init()
    total = ray.get(tree_sum.remote(0, 16_000))
    assert total == sum(range(16_000)), total
    print("sum of 0..15999, computed by a tree of tasks:", total)
