"""What every test on real processes needs: sessions, drivers of their own, and a look at what is left behind."""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.python import two_nodes

import eagleray as ray

# A daemon of the user's own must neither be joined nor be disturbed.
for _name in ("RAY_ADDRESS", "EAGLERAY_ADDRESS"):
    os.environ.pop(_name, None)

# A shell starts what runs in the background with Ctrl-C ignored, and so would be all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Over two nodes those tests are left out that mean one."""
    if two_nodes.IS_ON:
        two_nodes.take_over()
        two_nodes.leave_one_node_out(items)


def pytest_sessionfinish():
    """Nothing is left of the nodes."""
    two_nodes.KEPT.end()


@pytest.fixture(scope="session", autouse=True)
def private_folder(tmp_path_factory):
    """Sessions of the tests live in a folder of their own, where no daemon listens; heads take whatever port is free."""
    folder = tmp_path_factory.mktemp("eagleray")
    mine = {"EAGLERAY_TMPDIR": str(folder), "EAGLERAY_GCS_SERVER_PORT": "0"}
    old = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    yield folder
    for name, value in old.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


@pytest.fixture
def ray_session():
    """A fresh session with two CPUs, and none of another test."""
    ray.shutdown()
    yield ray.init(num_cpus=2)
    ray.shutdown()


@pytest.fixture(scope="module")
def shared_ray():
    """One session with two CPUs for all tests of a file that leave nothing behind in it."""
    ray.shutdown()
    yield ray.init(num_cpus=2)
    ray.shutdown()


@pytest.fixture
def no_session():
    """Nothing is started; whatever the test starts is ended."""
    ray.shutdown()
    yield
    ray.shutdown()


def wait_until(is_true, *, seconds=20.0, what="the condition"):
    """Polls until `is_true()`; returns its value. The limit is generous: reaching it is a failure."""
    deadline = time.monotonic() + seconds
    while True:
        value = is_true()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
        time.sleep(0.01)


@pytest.fixture(name="wait_until")
def wait_until_fixture():
    return wait_until


class Signs:
    """Files by which processes tell each other how far they are."""

    def __init__(self, folder):
        self.folder = str(folder)

    def set(self, name):
        with open(os.path.join(self.folder, name), "a") as file:
            file.write("x")

    def count(self, name):
        try:
            return os.path.getsize(os.path.join(self.folder, name))
        except FileNotFoundError:
            return 0

    def wait(self, name, seconds=30.0):
        deadline = time.monotonic() + seconds
        while not self.count(name):
            assert time.monotonic() < deadline, f"{name} never came"
            time.sleep(0.005)


@pytest.fixture
def signs(tmp_path):
    return Signs(tmp_path)


@dataclass(frozen=True)
class Process:
    """One process as /proc shows it."""

    pid: int
    parent: int
    state: str
    command: str


def processes():
    """Every process of this machine that is not a zombie."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z":
            found.append(Process(int(folder.name), int(parent), state, command))
    return found


def descendants(pid):
    """The process's children, theirs, and so on."""
    everyone = processes()
    found, front = [], {pid}
    while front:
        new = [process for process in everyone if process.parent in front]
        found += new
        front = {process.pid for process in new}
    return found


def is_alive(pid):
    """Whether the process runs; a zombie does not."""
    return any(process.pid == pid for process in processes())


class Leaks:
    """What a session may have left behind."""

    descendants = staticmethod(descendants)
    is_alive = staticmethod(is_alive)

    @staticmethod
    def check(pids, *folders, seconds=20.0):
        """Fails unless all these processes and folders are gone within the time."""

        def is_clean():
            return not any(is_alive(pid) for pid in pids) and not any(Path(folder).exists() for folder in folders)

        deadline = time.monotonic() + seconds
        while not is_clean():
            left = [process for process in processes() if process.pid in set(pids)]
            kept = [folder for folder in folders if Path(folder).exists()]
            assert time.monotonic() < deadline, f"left behind after {seconds} s: {left} {kept}"
            time.sleep(0.01)


@pytest.fixture
def leaks():
    """Looks for processes and folders that outlive their session."""
    return Leaks


#: Behind the last line of a stream.
_END = ""


class Driver:
    """A program of its own. `say` gives it a line, `hear` waits for one."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self._out, self._err = queue.SimpleQueue(), []
        #: Lines that nobody waited for.
        self.said = []
        # Threads, so that a full pipe never holds the program up.
        self._readers = [
            threading.Thread(target=self._read, args=(process.stdout, self._out.put), daemon=True),
            threading.Thread(target=self._read, args=(process.stderr, self._err.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream, take):
        for line in stream or ():
            take(line)
        take(_END)

    def hear_until(self, prefix):
        """The rest of the next line that begins so."""
        while True:
            line = self._out.get(timeout=50)
            if line.startswith(prefix):
                return line[len(prefix) :].strip()
            self.said.append(line)
            assert line is not _END, f"ended before it said {prefix!r}; it said {self.said} and {''.join(self._err)}"

    def say(self, line):
        """One line for its standard input."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def end(self, timeout=40):
        """Waits for its end: (exit code, rest of stdout, stderr)."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        rest = []
        while not self._out.empty():
            rest.append(self._out.get())
        return self.process.returncode, "".join(rest), "".join(self._err)


class Drivers:
    """Starts programs that use eagleray, each with a folder for its sessions that nobody else uses."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []

    def environ(self, **more):
        environ = {**os.environ, "EAGLERAY_TMPDIR": str(self.folder), "PYTHONUNBUFFERED": "1"}
        environ.update({name: str(value) for name, value in more.items()})
        return environ

    def start(self, code, *argv, preexec=None, env=None, python=sys.executable, **popen):
        """Starts a program; it ends with the test."""
        # Under `nohup` a program would ignore the end of its terminal, whatever a test says of it.
        head = "import os, sys, time, signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\nimport eagleray as ray\n"
        process = subprocess.Popen(
            [python, "-c", head + textwrap.dedent(code), *map(str, argv)],
            env=self.environ(**(env or {})),
            text=True,
            preexec_fn=preexec,
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen},
        )
        self.started.append(process)
        return Driver(process)

    def run(self, code, *argv, timeout=40, code_wanted=0, **options):
        """Runs a program to its end; returns what it printed to stdout and stderr."""
        code_got, out, err = self.start(code, *argv, **options).end(timeout)
        assert code_wanted is None or code_got == code_wanted, f"exit code {code_got}\n{out}\n{err}"
        return out, err

    def command(self, *arguments, timeout=40, env=None, **run):
        """Runs the `eagleray` command."""
        return subprocess.run(
            [sys.executable, "-m", "eagleray", *map(str, arguments)],
            env=self.environ(**(env or {})),
            text=True,
            **run,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def daemon_socket(self):
        """Where the only daemon listens."""
        (link,) = self.folder.glob("nodes/*")
        return link.resolve() / "node.sock"

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(20)
        if any(self.folder.glob("nodes/*")):
            self.command("stop")


@pytest.fixture
def drivers():
    """Programs of their own, for what ends, kills or limits a whole process."""
    # A socket's path has at most 107 bytes, so the folder stands near the root.
    made = Drivers(Path(tempfile.mkdtemp(prefix="er-")))
    yield made
    made.close()
    shutil.rmtree(made.folder, ignore_errors=True)
