"""What control groups leave this process of its machine: containers, pods and jobs of Slurm are such groups.

The limits of its own group count, and those of all groups above. In a container that sees its own group as the root there is one; under Slurm
there are several, and the job's is rarely the last.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where they are mounted.
_ROOT = Path("/sys/fs/cgroup")
#: In which of them this process is: a line for each hierarchy, number:controllers:path.
_OWN = Path("/proc/self/cgroup")


def cpus(root: Path = _ROOT, own: Path = _OWN) -> float | None:
    """Say how many cores' worth of time the groups give; None: they say nothing."""
    paths = _paths(own)
    limits = [_quotient(folder / "cpu.max") for folder in _folders(root, paths.get(""))]
    older = _folders(root / "cpu", paths.get("cpu"))
    limits += [_quotient(folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us") for folder in older]
    return min((limit for limit in limits if limit is not None), default=None)


def memory(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """Say how many bytes of memory the groups give; None: they say nothing."""
    paths = _paths(own)
    files = [folder / "memory.max" for folder in _folders(root, paths.get(""))]
    files += [folder / "memory.limit_in_bytes" for folder in _folders(root / "memory", paths.get("memory"))]
    limits = [int(words[0]) for file in files if (words := _words(file)) and words[0].isdigit()]
    return min(limits, default=None)


def _paths(own: Path) -> dict[str, str]:
    """Find the path of this process's group by controller; of version 2, which has all of them in one, by an empty name."""
    try:
        lines = own.read_text().splitlines()
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _folders(root: Path, path: str | None) -> Iterator[Path]:
    """List a group's folder and those above it, down to the root. What a container does not see of its own path is not there."""
    parts = [part for part in (path or "").split("/") if part]
    if ".." not in parts:
        for length in range(len(parts), 0, -1):
            yield root.joinpath(*parts[:length])
    yield root


def _quotient(*files: Path) -> float | None:
    """Divide the first of two numbers by the second, both in one file or each in its own."""
    words = [word for file in files for word in _words(file)]
    try:
        quota, period = float(words[0]), float(words[1])
    except (ValueError, IndexError):
        return None  # "max", or no such file
    return quota / period if quota > 0 and period > 0 else None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except (OSError, ValueError):
        return []
