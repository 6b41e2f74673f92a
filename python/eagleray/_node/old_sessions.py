"""What dead sessions have left in their folders.

Daemons keep logs for who wants to read them; only the newest stay. A program's session takes its folder along when it ends; only where
everything of it was killed at once, the next session's start finds it and removes it.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from eagleray import _native

if TYPE_CHECKING:
    from pathlib import Path

#: In the folder of a session that is to go with it.
_PASSING = "goes-with-its-session"
#: A session's launcher holds the lock of its folder by then.
_LAUNCHER_SECONDS_MAX = 10
#: Dead sessions whose folders are kept.
_KEPT_MAX = 10


def of_node(folder: Path, pid: int) -> Path | None:
    """Find the folder of the session whose node runs, or ran, in this process."""
    return max(folder.glob(f"session_*_{pid}_*"), default=None)


def is_alive(pid: int) -> bool:
    """Tell whether the process runs. One that nobody has buried yet does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as about:
            return about.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def secrets_of(session_dir: Path) -> Path:
    """Say where a session keeps what nobody else may read: beside its folder, so that who keeps logs keeps no secrets."""
    return session_dir.with_name(session_dir.name.replace("session_", "secrets_", 1))


def remove(folder: Path) -> None:
    """Remove the folders of dead sessions, except for the newest ones, and the secrets of all."""
    import shutil

    for path in folder.glob("secrets_*_*_*_*"):
        session = path.with_name(path.name.replace("secrets_", "session_", 1))
        if is_dead(session) or not session.exists():
            shutil.rmtree(path, ignore_errors=True)
    # Names begin with the time of the start.
    dead = [path for path in sorted(folder.glob("session_*_*_*_*")) if is_dead(path)]
    for path in dead[:-_KEPT_MAX]:
        _native.remove_session(str(path))


def mark_passing(session_dir: Path) -> None:
    """Note that nobody wants to keep what is in this folder once its session is over."""
    (session_dir / _PASSING).touch()


def sweep(folder: Path) -> None:
    """Remove what is left of programs' sessions that were killed with all their processes, on a thread of its own if there is any."""
    youngest = time.time() - _LAUNCHER_SECONDS_MAX
    try:
        old = [path for path in folder.glob(f"session_*_*_*_*/{_PASSING}") if path.stat().st_mtime < youngest]
    except OSError:
        return  # somebody else removes it
    dead = [path.parent for path in old if is_dead(path.parent)]
    if not dead:
        return
    import threading

    def remove() -> None:
        for path in dead:
            _native.remove_session(str(path))

    # The program's end waits for it: a folder that lost its mark and not the rest would stay.
    threading.Thread(target=remove, name="eagleray-sweep").start()


def is_dead(path: Path) -> bool:
    """Tell whether nothing runs any more of the session with this folder."""
    pid = path.name.split("_")[3]
    if path.is_symlink() or not path.is_dir() or not pid.isdigit():
        return False
    # The first process of a container has the pid of the one before whenever that starts again: then only the lock tells.
    if is_alive(int(pid)) and not int(pid) == os.getpid() == 1:
        return False
    if "://" in _folders_elsewhere(path):
        return False  # values of it may still lie in a bucket, and this list is all that tells where
    # The session may be of another container, whose processes do not show here: its launcher holds this lock.
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _folders_elsewhere(path: Path) -> str:
    try:
        return (path / "folders").read_text()
    except OSError:
        return ""
