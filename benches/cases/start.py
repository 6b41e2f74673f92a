"""From nothing to the first result: a fresh interpreter that imports, inits and runs one task."""

from __future__ import annotations

import subprocess
import sys
import time

from cases.catalog import Ray, case
from measure import Job

FIRST_TASK = """
import {module} as ray
ray.init()

@ray.remote
def one():
    return 1

assert ray.get(one.remote()) == 1
print("first result", flush=True)
"""


def time_to_first_result(script: str) -> float:
    """Wall seconds from starting an interpreter on the script until its first result; its end is not timed."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("first result"):
                seconds = time.perf_counter() - began
                child.stdout.read()
                return seconds
    raise RuntimeError(f"the script ended with {child.returncode} before its first result")


def start_job(script: str) -> Job:
    """A job that starts the script again and again."""

    def job(repeats: int) -> float:
        return sum(time_to_first_result(script) for _ in range(repeats))

    return job


@case("import + init + first task", unit="s", needs_session=False, goal=0.25, goal_times_ray=20)
def start_to_first_result(ray: Ray) -> Job:
    """Also counts the interpreter's own start."""
    return start_job(FIRST_TASK.format(module=ray.__name__))
