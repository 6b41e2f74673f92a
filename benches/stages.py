"""Prints where the time of one call goes, stage by stage, for a sync actor call and a sync task on eagleray.

The caller's and the worker's process each time their own stages; what is in neither is the time between them: both hand-overs through
the rings, and waking up.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

from table import figure, plain

STAGES = ("submit", "ring", "wake", "deserialise", "run", "reply", "get")
CALLS = 20_000
WARM_UP_CALLS = 2_000


def main() -> None:
    """Print the table; with --out, write it to a file as one JSON string instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = stages_in_words(options.calls)
    if options.out:
        options.out.write_text(json.dumps(text))
    else:
        print(text)


def stages_in_words(calls: int) -> str:
    """The table, or why there is none."""
    try:
        ray = importlib.import_module("eagleray")
        native = importlib.import_module("eagleray._native")
    except ImportError as error:
        return f"no stages to show: {error}"
    ray.init()
    try:
        actor = ray.remote(Timed).remote()
        run, start, read = (ray.remote(function) for function in (nothing, start_timing, read_timing))
        return stage_table(
            {
                "sync actor call": split(ray, native, calls, actor.run, actor.start, actor.read),
                "sync task": split(ray, native, calls, run, start, read),
            }
        )
    finally:
        ray.shutdown()


class Timed:
    """An actor that times its own stages."""

    def run(self) -> None:
        """The call that is measured."""

    def start(self) -> None:
        start_timing()

    def read(self) -> dict[str, float]:
        return read_timing()


def nothing() -> None:
    """The call that is measured."""


def start_timing() -> None:
    importlib.import_module("eagleray._native").stage_times_start()


def read_timing() -> dict[str, float]:
    native = importlib.import_module("eagleray._native")
    times = dict(native.stage_times())
    native.stage_times_stop()
    return times


def split(ray: Any, native: Any, calls: int, run: Any, start: Any, read: Any) -> tuple[dict[str, float], float]:
    """Mean microseconds by stage, and of the whole call as the caller sees it while nothing is timed."""
    for _ in range(WARM_UP_CALLS):
        ray.get(run.remote())
    began = time.perf_counter()
    for _ in range(calls):
        ray.get(run.remote())
    whole = (time.perf_counter() - began) / calls * 1e6
    ray.get(start.remote())
    native.stage_times_start()
    for _ in range(calls):
        ray.get(run.remote())
    caller = dict(native.stage_times())
    native.stage_times_stop()
    worker = ray.get(read.remote())
    stages = {
        "submit": caller["submit"] - caller["ring"],
        "ring": caller["ring"],
        "deserialise": worker["deserialise"],
        "run": worker["run"],
        "reply": worker["reply"],
        "get": caller["get"],
    }
    stages["wake"] = max(0.0, whole - sum(stages.values()))
    return stages, whole


def stage_table(columns: dict[str, tuple[dict[str, float], float]]) -> str:
    """A row per stage, known ones first and in order, then what is left unexplained, then the whole."""
    named = {stage for stages, _ in columns.values() for stage in stages}
    rows = [
        [stage, *(figure(stages.get(stage)) for stages, _ in columns.values())]
        for stage in [*STAGES, *sorted(named - set(STAGES))]
    ]
    rows.append(["whole call", *(figure(whole) for _, whole in columns.values())])
    return plain(["stage, us", *columns], rows)


if __name__ == "__main__":
    main()
