"""Prints where the time of one call goes, stage by stage, for a sync actor call and a sync task on eagleray.

Uses `eagleray._native.stage_times_start()` and `stage_times()` (mean microseconds by stage); where they are missing it
says so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

from cases import CASES
from table import figure, plain

STAGES = ("submit", "ring", "wake", "deserialise", "run", "reply", "get")
KINDS = {"sync actor call": "sync_actor", "sync task": "sync_task"}
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
    if not hasattr(native, "stage_times_start") or not hasattr(native, "stage_times"):
        return "no stages to show: this build of eagleray does not time them"
    ray.init()
    try:
        return stage_table({title: split(ray, native, name, calls) for title, name in KINDS.items()})
    finally:
        ray.shutdown()


def split(ray: Any, native: Any, case: str, calls: int) -> tuple[dict[str, float], float]:
    """Mean microseconds by stage, and of the whole call as the caller sees it."""
    job = CASES[case].prepare(ray)
    job(WARM_UP_CALLS)
    native.stage_times_start()
    began = time.perf_counter()
    job(calls)
    whole = (time.perf_counter() - began) / calls * 1e6
    return {str(stage): float(each) for stage, each in dict(native.stage_times()).items()}, whole


def stage_table(columns: dict[str, tuple[dict[str, float], float]]) -> str:
    """A row per stage, known ones first and in order, then what is left unexplained, then the whole."""
    named = {stage for stages, _ in columns.values() for stage in stages}
    rows = [
        [stage, *(figure(stages.get(stage)) for stages, _ in columns.values())]
        for stage in [*STAGES, *sorted(named - set(STAGES))]
    ]
    rows.append(["not in a stage", *(figure(whole - sum(stages.values())) for stages, whole in columns.values())])
    rows.append(["whole call", *(figure(whole) for _, whole in columns.values())])
    return plain(["stage, us", *columns], rows)


if __name__ == "__main__":
    main()
