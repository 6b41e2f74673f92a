"""However a program ends, nothing of it is left: no process, no folder, no file in /dev/shm, nobody who holds its shared memory."""

import os
import signal
import time
from pathlib import Path

import pytest

import eagleray as ray

# A task that runs, an actor with a thread that never ends, a value in the store, and a child that left its parent's session.
BUSY = """
import subprocess, threading
context = ray.init(num_cpus=2)
@ray.remote
def hold():
    time.sleep(600)
@ray.remote(num_cpus=0)
class Actor:
    def start(self):
        threading.Thread(target=time.sleep, args=(600,)).start()
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True).pid
actor, busy, kept = Actor.remote(), hold.remote(), ray.put(bytes(10**7))
ray.get(actor.start.remote())
print("session", context["session_dir"])
sys.stdin.readline()
"""
ENDS = {
    "its last line": (None, ""),
    "shutdown": (None, "ray.shutdown()\ndel actor, busy, kept\nprint('down')\nsys.stdin.readline()"),
    "an exception": (None, "raise ValueError"),
    "os._exit": (None, "os._exit(7)"),
    "SIGKILL": (signal.SIGKILL, "time.sleep(600)"),
    "SIGTERM": (signal.SIGTERM, "time.sleep(600)"),
    "SIGTERM in a blocked get": (signal.SIGTERM, "ray.get(busy)"),
    "Ctrl-C": (signal.SIGINT, "time.sleep(600)"),
    "Ctrl-C in a blocked get": (signal.SIGINT, "ray.get(busy)"),
    "SIGHUP": (signal.SIGHUP, "time.sleep(600)"),
    "a segfault": (None, "import ctypes; ctypes.string_at(0)"),
}


def memory_files(pid):
    """The anonymous files of ours that a process has open or mapped, by inode."""
    found = set()
    try:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if "memfd:eagleray" in os.readlink(fd):
                    found.add(fd.stat().st_ino)
            except OSError:
                continue
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "memfd:eagleray" in line:
                found.add(int(line.split()[4]))
    except OSError:
        pass
    return found


def holders(inodes):
    """Every process of this machine that holds one of them."""
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if memory_files(pid) & inodes]


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_after(drivers, leaks, wait_until, end):
    number, last_words = ENDS[end]
    shared_before = set(os.listdir("/dev/shm"))
    driver = drivers.start(BUSY + last_words)
    session = driver.hear_until("session")
    everyone = [process.pid for process in leaks.descendants(driver.pid)]
    memory = memory_files(driver.pid)
    assert len(everyone) >= 4
    assert memory, "there should be shared memory"
    assert set(holders(memory)) > {driver.pid}
    driver.say("go")
    if number is not None:
        # Not while it still reads its input, but wherever it is after that.
        time.sleep(0.2)
        driver.kill(number)
    # After a shutdown the program goes on; what it started is gone all the same.
    leaks.check(everyone, session)
    wait_until(lambda: not set(holders(memory)) - {driver.pid}, what="nobody else holds the shared memory")
    if end == "shutdown":
        driver.hear_until("down")
        assert not memory_files(driver.pid), "the program itself has let go of it too"
    driver.end()
    assert not holders(memory)
    assert set(os.listdir("/dev/shm")) <= shared_before
    assert not list(Path(drivers.folder).glob("session_*"))


# The process that cleans up after the driver takes some time to start. Until then, a killed driver's folder stayed for ever.
def test_nothing_is_left_of_a_driver_that_is_killed_while_it_starts(drivers, leaks, wait_until):
    for _ in range(5):
        driver = drivers.start("print('starts')\nray.init(num_cpus=2)\ntime.sleep(600)")
        driver.hear_until("starts")
        started = wait_until(lambda pid=driver.pid: leaks.descendants(pid))
        driver.kill(signal.SIGKILL)
        driver.end()
        leaks.check([process.pid for process in started])
    wait_until(lambda: not list(Path(drivers.folder).glob("session_*")), what="no folder is left")


# The driver could not map the store; the node that it had started before lived on, and its folder too.
def test_nothing_is_left_of_a_session_that_does_not_fit_into_memory(no_session, leaks, monkeypatch):
    # More than the machine has would be refused before anything starts.
    monkeypatch.setattr("eagleray._node.hosting.usable_memory", lambda: 10**19)
    before = {process.pid for process in leaks.descendants(os.getpid())}
    folder = os.environ["EAGLERAY_TMPDIR"]
    folders = set(os.listdir(folder))
    with pytest.raises(MemoryError, match="object_store_memory"):
        ray.init(num_cpus=1, object_store_memory=10**18)
    assert not ray.is_initialized()
    assert {process.pid for process in leaks.descendants(os.getpid())} == before
    assert set(os.listdir(folder)) == folders
