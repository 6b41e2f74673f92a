"""Describes this machine, so that figures can be judged later."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent


def describe() -> dict[str, Any]:
    """Processor, cores we may use, memory, kernel, and how busy it was when asked."""
    return {
        "processor": _first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(_first("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20), 1),
        "virtual": "hypervisor" in _first("/proc/cpuinfo", "flags").split(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "load_average": [round(each, 2) for each in os.getloadavg()],
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
    }


def in_words(machine: dict[str, Any]) -> str:
    """One line for a table's foot."""
    kind = "virtual" if machine["virtual"] else "physical"
    return (
        f"{machine['cores']} {kind} cores ({machine['processor']}), {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, load {machine['load_average'][0]} at the start, {machine['date']}"
    )


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "0"


def _commit() -> str | None:
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None
