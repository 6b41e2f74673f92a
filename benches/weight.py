"""Weighs a system: memory of its processes after a few tasks, processor use while idle, installed size.

python benches/weight.py --system eagleray [--daemon] weighs in the current interpreter's environment. With --daemon the
system is started by its own command (`eagleray start --head`) and joined, so that its daemon is apart from the driver.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import operator
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from environments import describe
from launch import end_on_signals, launch
from processes import adopt_orphans, descendants, parent_of
from systems import RAY_LIKE, SYSTEMS, open_session
from table import figure

MIB = 1 << 20
SETTLE_SECONDS = 1.0
IDLE_SECONDS = 5.0
START_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Memory:
    """Memory of some processes, in MiB. RSS counts shared pages for each, PSS shares them out, private has none.

    A library's pages leave `private` when a second process maps it, and a fork shares all pages at first; `anonymous`
    is what the process wrote itself and does not move with its neighbours.
    """

    processes: int = 0
    anonymous: float = 0.0
    rss: float = 0.0
    rss_less_shared_memory: float = 0.0
    pss: float = 0.0
    private: float = 0.0

    def __add__(self, other: Memory) -> Memory:
        return Memory(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: Memory) -> Memory:
        return Memory(*map(operator.sub, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Weight:
    """What a system weighs; memory in MiB."""

    daemons: Memory
    driver: Memory
    workers: Memory
    worker_private_each: float
    driver_growth_at_import: Memory
    driver_growth_at_init: Memory
    processes: int
    idle_cpu_percent: float
    installed_mib: float | None

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Weight:
        """The inverse of `asdict`."""
        read: dict[str, Any] = {
            name: Memory(**value) if isinstance(value, dict) else value for name, value in fields.items()
        }
        return cls(**read)


def weigh(system: str, *, daemon: bool) -> Weight:
    """Start the system, run a few tasks, let it settle, weigh."""
    adopt_orphans()
    me = os.getpid()
    if daemon:
        start_daemon(system)
    before_import = memory_of({me})
    open_session(system, start=False)
    before_init = memory_of({me})
    session = open_session(system, address="auto" if daemon else None)
    after_init = memory_of({me})
    seen = session.worker_pids(session.handle)
    time.sleep(SETTLE_SECONDS)
    others = descendants(me)
    # Spare workers that no task happened to reach have the parent and the command line of those that one did reach.
    kinds = {kind_of(pid) for pid in seen & others}
    workers = {pid for pid in others if kind_of(pid) in kinds}
    worker_memory = memory_of(workers)
    return Weight(
        daemons=memory_of(others - workers),
        driver=memory_of({me}),
        workers=worker_memory,
        worker_private_each=worker_memory.private / max(1, worker_memory.processes),
        driver_growth_at_import=before_init - before_import,
        driver_growth_at_init=after_init - before_init,
        processes=1 + len(others),
        idle_cpu_percent=cpu_percent({me, *others}, IDLE_SECONDS),
        installed_mib=installed_mib(describe(system).distribution),
    )


def start_daemon(system: str) -> None:
    """Start the node by the system's own command and wait for the command to return."""
    command = [str(Path(sys.executable).parent / system), "start", "--head"]
    subprocess.run(command, check=True, timeout=START_SECONDS_MAX, stdout=subprocess.DEVNULL)


def memory_of(pids: set[int]) -> Memory:
    """Their memory together; a process that ended meanwhile counts for nothing."""
    total = Memory()
    for pid in pids:
        with contextlib.suppress(OSError):
            rollup = _kib_fields(Path(f"/proc/{pid}/smaps_rollup"))
            if not rollup:  # a zombie
                continue
            shared_memory = _kib_fields(Path(f"/proc/{pid}/status")).get("RssShmem", 0)
            total += Memory(
                processes=1,
                anonymous=rollup["Anonymous"] / 1024,
                rss=rollup["Rss"] / 1024,
                rss_less_shared_memory=(rollup["Rss"] - shared_memory) / 1024,
                pss=rollup["Pss"] / 1024,
                private=(rollup["Private_Clean"] + rollup["Private_Dirty"]) / 1024,
            )
    return total


def kind_of(pid: int) -> tuple[int, bytes]:
    """Parent and command line, which siblings of one kind share; nothing if the process is gone."""
    with contextlib.suppress(OSError):
        return parent_of(pid), Path(f"/proc/{pid}/cmdline").read_bytes()
    return 0, b""


def cpu_percent(pids: set[int], seconds: float) -> float:
    """Percent of one core that they use together while nobody asks anything of them."""
    before = {pid: _cpu_seconds(pid) for pid in pids}
    time.sleep(seconds)
    used = sum(max(0.0, _cpu_seconds(pid) - before[pid]) for pid in pids)
    return 100 * used / seconds


def installed_mib(distribution: str | None) -> float | None:
    """Files of the distribution and of everything that it requires; None for what comes with Python."""
    if distribution is None:
        return None
    to_visit, seen, total = [distribution], set(), 0
    while to_visit:
        name = re.sub(r"[-_.]+", "-", to_visit.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python
        total += sum(_sizes(found))
        needed = (each for each in found.requires or [] if "extra ==" not in each)
        to_visit += [re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0] for each in needed]
    return total / MIB


def _sizes(found: importlib.metadata.Distribution) -> list[int]:
    """Sizes of a distribution's files; of its source folder too if it was installed editable."""
    files = {Path(str(found.locate_file(file))).resolve() for file in found.files or []}
    if any(file.suffix == ".pth" for file in files):
        spec = importlib.util.find_spec(found.name.replace("-", "_"))
        for folder in (spec.submodule_search_locations or []) if spec else []:
            files |= {file.resolve() for file in Path(folder).rglob("*")}
    return [file.stat().st_size for file in files if file.is_file()]


def _kib_fields(path: Path) -> dict[str, int]:
    """Lines of the form `Name:   123 kB`."""
    fields = (line.split() for line in path.read_text().splitlines())
    return {field[0].rstrip(":"): int(field[1]) for field in fields if len(field) == 3 and field[2] == "kB"}


def _cpu_seconds(pid: int) -> float:
    """Processor time of all threads, exact to the nanosecond (clock ticks are too coarse for 0.2 %)."""
    total = 0
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def weigh_apart(python: Path, system: str, *, daemon: bool = False) -> Weight:
    """Weigh in a process of its own with a scratch folder of its own, as a driver's program would be."""
    arguments = ["--system", system, *(["--daemon"] if daemon else [])]
    return Weight.from_json(launch(python, "weight.py", arguments))


def main() -> None:
    """With --out this is the process that is weighed; without, the one that starts it and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=SYSTEMS, default="eagleray")
    parser.add_argument(
        "--daemon", action="store_true", help=f"start it by its own command first ({', '.join(RAY_LIKE)})"
    )
    parser.add_argument("--out", type=Path, help="weigh in this very process and write JSON there")
    options = parser.parse_args()
    if options.out:
        options.out.write_text(json.dumps(asdict(weigh(options.system, daemon=options.daemon))))
        # Whoever started us ends the rest; the system's own exit handlers would only take time.
        os._exit(0)
    adopt_orphans()
    end_on_signals()
    weight = weigh_apart(Path(sys.executable), options.system, daemon=options.daemon)
    for name, value in asdict(weight).items():
        words = (
            "  ".join(f"{key} {figure(each)}" for key, each in value.items())
            if isinstance(value, dict)
            else figure(value)
        )
        print(f"{name:<24} {words}")


if __name__ == "__main__":
    main()
