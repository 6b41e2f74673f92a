"""Simulation over actors: `actor_simulation.py SYSTEM ENVIRONMENT ACTORS MODE SECONDS`. Prints one line of JSON: steps of Pendulum per second.

The same program on both systems, but for the import: actors play episodes of uneven lengths (10 to 1,000 steps, the short ones as frequent as in
evolution strategies). Bulk-synchronous: each round waits for its longest episode. Asynchronous: whoever is done goes on.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import sys
import time
from typing import Any


def main(system: str, environment: str, actors: int, mode: str, seconds: float) -> float:
    ray: Any = importlib.import_module(system)
    ray.init(num_cpus=actors, logging_level="ERROR")

    @ray.remote(num_cpus=1)
    class Simulator:
        def __init__(self) -> None:
            if environment == "native":
                from eagleray.rllib.env.native_env import NativeVectorEnv

                # As many copies as one learner would ask an actor for.
                self.env: Any = NativeVectorEnv("Pendulum-v1", 8)
            else:
                import gymnasium

                self.env = gymnasium.make("Pendulum-v1", max_episode_steps=1_000)
            self.env.reset(seed=1)

        def play(self, steps: int) -> int:
            if environment == "native":
                self.env.drive(steps)
                return steps * 8
            self.env.reset()
            for _ in range(steps):
                self.env.step([0.5])
            return steps

    chance = random.Random(1)

    def length() -> int:
        # Native steps cost a hundredth: episodes as long in time.
        many = 100 if environment == "native" else 1
        return many * int(math.exp(chance.uniform(math.log(10), math.log(1_000))))

    simulators = [Simulator.remote() for _ in range(actors)]
    ray.get([simulator.play.remote(10) for simulator in simulators])
    steps, begun = 0, time.perf_counter()
    if mode == "bulk":
        while time.perf_counter() - begun < seconds:
            steps += sum(ray.get([simulator.play.remote(length()) for simulator in simulators]))
        return steps / (time.perf_counter() - begun)
    playing = {simulator.play.remote(length()): simulator for simulator in simulators}
    while time.perf_counter() - begun < seconds:
        done, _ = ray.wait(list(playing))
        for ref in done:
            simulator = playing.pop(ref)
            steps += ray.get(ref)
            playing[simulator.play.remote(length())] = simulator
    return steps / (time.perf_counter() - begun)


if __name__ == "__main__":
    said = sys.argv[1:]
    print(json.dumps({"figure": main(said[0], said[1], int(said[2]), said[3], float(said[4]))}))
