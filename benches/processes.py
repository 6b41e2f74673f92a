"""Processes of ours: finding all descendants, ending them, and strangers that keep cores busy.

This process becomes the subreaper of what it starts. So whatever a measured system leaves behind, daemonised or not,
stays our descendant, is found by process id, and no other user's process is ever touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 0.5
# multiprocessing's resource tracker removes shared memory once all who use it have ended, so it goes last.
TRACKER_GRACE_SECONDS = 3.0
END_SECONDS_MAX = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of all descendants whose own parent dies."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with_parent() -> None:
    """For `preexec_fn`: SIGKILL for this process once its parent is gone."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def parent_of(pid: int) -> int:
    """Its parent; OSError if the process is gone."""
    # The command name may hold spaces and brackets; the parent is the second field after its last bracket.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(ancestor: int) -> set[int]:
    """All live or zombie descendants of a process, itself not included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(parent_of(int(entry.name)), []).append(int(entry.name))
    found: set[int] = set()
    to_visit = [ancestor]
    while to_visit:
        for child in children.get(to_visit.pop(), []):
            if child not in found:
                found.add(child)
                to_visit.append(child)
    return found


def end_descendants(keep: frozenset[int] = frozenset()) -> int:
    """Give every descendant but the kept ones a moment to leave, then kill; returns how many had to be killed."""
    began = time.monotonic()
    killed: set[int] = set()
    while True:
        left = descendants(os.getpid()) - keep
        if not left:
            return len(killed)
        waited = time.monotonic() - began
        if waited > END_SECONDS_MAX:
            raise TimeoutError(f"processes {sorted(left)} do not die")
        for pid in left:
            grace = TRACKER_GRACE_SECONDS if _is_resource_tracker(pid) else GRACE_SECONDS
            if waited > grace and pid not in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _is_resource_tracker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextmanager
def strangers(count: int) -> Iterator[frozenset[int]]:
    """Run `count` CPU-bound processes beside; yields their ids."""
    spinning = [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "while True: pass"],
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        for _ in range(count)
    ]
    try:
        yield frozenset(process.pid for process in spinning)
    finally:
        for process in spinning:
            process.kill()
            process.wait()
