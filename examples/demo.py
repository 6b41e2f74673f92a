"""Shows the product in under a minute: tasks, actors, objects, wait, a killed worker survived, calls per second."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the tour."""
    started = time.perf_counter()
    import eagleray as ray

    ray.init()

    @ray.remote
    def square(x: int) -> int:
        return x * x

    first = ray.get(square.remote(7))
    print(f"import + init + first result {first}: {(time.perf_counter() - started) * 1000:.0f} ms\n")

    print("tasks     squares of 0..9:", ray.get([square.remote(i) for i in range(10)]))

    @ray.remote
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def add(self, amount: int) -> int:
            self.total += amount
            return self.total

        def pid(self) -> int:
            return os.getpid()

    counter = Counter.remote()
    print("actors    a counter after 1000 calls:", ray.get([counter.add.remote(1) for _ in range(1000)])[-1])

    @ray.remote
    def total_of(values: Any) -> int:
        return sum(values)

    numbers = ray.put(list(range(100_000)))
    print("objects   one put, read by four tasks:", ray.get([total_of.remote(numbers) for _ in range(4)]))

    @ray.remote
    def sleepy(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    waiting = [sleepy.remote(0.3), sleepy.remote(0.05)]
    ready, rest = ray.wait(waiting)
    print(f"wait      {ray.get(ready[0])} s is ready first, {len(rest)} still runs")

    mark = Path(tempfile.mkdtemp()) / "died-once"

    @ray.remote(max_retries=1)
    def dies_once() -> str:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "survived a killed worker"

    print("failure  ", ray.get(dies_once.remote()))
    mark.unlink()
    mark.parent.rmdir()

    print("\ncalls per second on this machine:")
    show("sync task", 1, lambda: ray.get(square.remote(2)))
    show("sync actor call", 1, lambda: ray.get(counter.add.remote(1)))
    show("async tasks", 1000, lambda: ray.get([square.remote(2) for _ in range(1000)]))
    show("async actor calls", 1000, lambda: ray.get([counter.add.remote(1) for _ in range(1000)]))
    show("small put", 1, lambda: ray.put(1))
    one = ray.put(1)
    show("small get", 1, lambda: ray.get(one))
    ray.shutdown()
    learn()


def learn() -> None:
    """Train a policy, and leave a picture of how it learned."""
    import importlib.util

    import ppo_cartpole

    print()
    missing = [name for name in ("numpy", "gymnasium", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"reinforcement learning is left out here: {', '.join(missing)} is not installed")
        return
    picture = Path(__file__).resolve().parent.parent / "build" / "ppo-cartpole.png"
    picture.parent.mkdir(exist_ok=True)
    ppo_cartpole.main(str(picture))


def show(name: str, calls: int, work: Callable[[], Any], seconds: float = 1.0) -> None:
    """Run `work` for a second and print how many calls that was."""
    work()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        work()
        done += calls
    print(f"  {name:<18} {done / (time.perf_counter() - start):>12,.0f}/s")


if __name__ == "__main__":
    main()
