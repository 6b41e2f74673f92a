"""A program whose process group is killed while it starts leaves nothing; what cannot be helped, the next session's start removes.

The process that cleans up was in that group until it had imported everything: of 40 programs killed 0.1 to 0.3 s after their start 19 left a
folder for ever.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

import eagleray as ray

PROGRAM = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import eagleray
eagleray.init(num_cpus=1)
time.sleep(60)
"""


def start(folder, wait_until):
    """A program in a process group of its own, as soon as its session's folder is there and marked as one that goes with it."""
    pattern = "session_*/goes-with-its-session"
    before = set(folder.glob(pattern))
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        start_new_session=True,
        env={**os.environ, "EAGLERAY_TMPDIR": str(folder)},
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: set(folder.glob(pattern)) - before, what="the folder")
    return started


def has_left(pid, group):
    try:
        return os.getpgid(pid) != group
    except ProcessLookupError:
        return False


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_killed_group_leaves_no_folder_once_the_launcher_has_left_it(number, tmp_path, leaks, wait_until):
    started = start(tmp_path, wait_until)
    wait_until(
        lambda: any(has_left(process.pid, started.pid) for process in leaks.descendants(started.pid)),
        what="the launcher in a group of its own",
    )
    os.killpg(started.pid, number)
    started.wait()
    wait_until(lambda: not list(tmp_path.glob("session_*")), what="the removal")


def test_what_a_group_left_that_was_killed_before_that_goes_with_the_next_start(tmp_path, wait_until):
    for _ in range(3):
        started = start(tmp_path, wait_until)
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    for path in tmp_path.glob("session_*"):
        # A launcher that had left in time removes its own.
        with contextlib.suppress(FileNotFoundError):
            for file in path.iterdir():
                os.utime(file, (0, 0))
    ray.shutdown()
    ray.init(num_cpus=1, _temp_dir=str(tmp_path))
    try:
        wait_until(lambda: len(list(tmp_path.glob("session_*"))) == 1, what="the removal")
    finally:
        ray.shutdown()


def test_folders_that_somebody_may_want_stay(tmp_path):
    from eagleray._node import old_sessions

    def folder(name, *, passes, age):
        path = tmp_path / name
        path.mkdir()
        if passes:
            old_sessions.mark_passing(path)
            then = time.time() - age
            os.utime(path / "goes-with-its-session", (then, then))
        return path

    dead = subprocess.Popen(["true"])
    dead.wait()
    stay = [
        folder(f"session_2026-01-01_00-00-00_{dead.pid}_000001", passes=False, age=0),
        folder(f"session_2026-01-01_00-00-00_{dead.pid}_000002", passes=True, age=1),
        folder(f"session_2026-01-01_00-00-00_{os.getpid()}_000003", passes=True, age=3600),
    ]
    goes = folder(f"session_2026-01-01_00-00-00_{dead.pid}_000004", passes=True, age=3600)
    old_sessions.sweep(tmp_path)
    until = time.monotonic() + 10
    while goes.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert sorted(tmp_path.iterdir()) == sorted(stay)
