"""A program whose process group is killed while it starts leaves nothing; what cannot be helped, the next session's start removes.

The process that cleans up was in that group until it had imported everything: of 40 programs killed 0.1 to 0.3 s after their start 19 left a
folder for ever.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

import eagleray as ray


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_group_killed_while_its_session_starts_leaves_no_folder(number, tmp_path, wait_until):
    program = "import eagleray, time; eagleray.init(num_cpus=1); time.sleep(60)"
    for delay in (0.0, 0.03, 0.06, 0.1):
        started = subprocess.Popen(
            [sys.executable, "-c", program],
            start_new_session=True,
            env={**os.environ, "EAGLERAY_TMPDIR": str(tmp_path)},
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: list(tmp_path.glob("session_*")), what="the folder")
        time.sleep(delay)
        os.killpg(started.pid, number)
        started.wait()
    time.sleep(2)
    left = list(tmp_path.glob("session_*"))
    # Killed before the launcher's first line ran.
    assert len(left) <= 2
    for path in left:
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
