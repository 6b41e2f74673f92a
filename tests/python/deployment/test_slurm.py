"""The script for Slurm, run with programs that do for one machine what Slurm's do for many: each address of loopback is a machine, with a folder."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.python.conftest import processes
from tests.python.deployment.commands import DEPLOY, ROOT, calls_in, parsed

SCRIPT = DEPLOY / "slurm/eagleray.sbatch"
MACHINES = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]

#: `srun`: runs the command on each machine of --nodelist, with its own input for all of them, and passes SIGTERM on.
SRUN = """
import os, signal, subprocess, sys

options = [word for word in sys.argv[1:] if word.startswith("--")]
command = next(at for at, word in enumerate(sys.argv) if at and not word.startswith("--"))
(machines,) = (word.partition("=")[2].split(",") for word in options if word.startswith("--nodelist="))
assert f"--nodes={len(machines)}" in options and f"--ntasks={len(machines)}" in options
given = sys.stdin.buffer.read()
started = []
signal.signal(signal.SIGTERM, lambda *_: [each.terminate() for each in started])
for machine in machines:
    if machine == os.environ.get("BROKEN_MACHINE"):
        continue
    folder = os.path.join(os.environ["MACHINES"], machine)
    environ = {**os.environ, "EAGLERAY_TMPDIR": folder}
    each = subprocess.Popen(sys.argv[command:], env=environ, stdin=subprocess.PIPE)
    started.append(each)
    each.stdin.write(given)
    each.stdin.close()
sys.exit(max(each.wait() for each in started))
"""

#: Runs a task on each node of its cluster, and says what was there.
PROGRAM = """
import json, os, sys
import eagleray as ray
from eagleray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as At

@ray.remote
def where():
    return os.environ["EAGLERAY_TMPDIR"], "EAGLERAY_TOKEN" in os.environ

ray.init()
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
told = ray.get([where.options(scheduling_strategy=At(node, soft=False)).remote() for node in nodes])
print(json.dumps(told), flush=True)
if sys.argv[1] == "stay":
    import time
    time.sleep(40)
sys.exit(int(sys.argv[1]))
"""


class Job:
    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "tmp").mkdir()
        for machine in MACHINES:
            (folder / machine).mkdir(mode=0o700)
        self._tool(
            "scontrol", f'#!/bin/sh\n[ "$*" = "show hostnames fake[1-3]" ] && printf "%s\\n" {" ".join(MACHINES)}\n'
        )
        self._tool("srun", f"#!{sys.executable}\n{SRUN}")
        self._tool("eagleray", f'#!/bin/sh\nexec {sys.executable} -m eagleray "$@"\n')
        (folder / "program.py").write_text(PROGRAM)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def _tool(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def start(self, *arguments, **env):
        environ = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "SLURM_JOB_NODELIST": "fake[1-3]",
            "SLURM_JOB_ID": "7",
            "EAGLERAY_GCS_SERVER_PORT": str(self.port),
            "EAGLERAY_START_SECONDS": "30",
            "EAGLERAY_TMPDIR": f"{self.folder}/{MACHINES[0]}",
            "MACHINES": str(self.folder),
            "TMPDIR": f"{self.folder}/tmp",
            **env,
        }
        return subprocess.Popen(
            ["bash", SCRIPT, *arguments],
            env=environ,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def program(self, *arguments, **env):
        return self.start(sys.executable, "program.py", *arguments, **env)

    def left(self):
        """Processes that were started for this job."""
        mark = f"MACHINES={self.folder}".encode()
        found = []
        for each in processes():
            try:
                if mark in Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0"):
                    found.append(each)
            except OSError:
                continue
        return found

    def close(self):
        for each in self.left():
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def job():
    made = Job(Path(tempfile.mkdtemp(prefix="er-")))
    yield made
    made.close()


def check_nothing_left(job, wait_until):
    wait_until(lambda: not job.left(), what="the end of all that the job has started")
    assert list((job.folder / "tmp").iterdir()) == [], "the secrets go with the job"
    for machine in MACHINES:
        assert list((job.folder / machine).glob("nodes/*")) == []
        assert list((job.folder / machine).glob("secrets_*")) == []


def test_a_program_runs_on_all_machines_and_then_all_ends(job, wait_until):
    said, _ = (script := job.program("0")).communicate(timeout=55)
    assert script.returncode == 0, said
    (told,) = (json.loads(line) for line in said.splitlines() if line.startswith("[["))
    assert sorted(told) == [[f"{job.folder}/{machine}", False] for machine in MACHINES]
    assert said.count("Node started") == 3
    check_nothing_left(job, wait_until)


def test_the_job_ends_as_its_program_does(job, wait_until):
    said, _ = (script := job.program("7")).communicate(timeout=55)
    assert script.returncode == 7, said
    check_nothing_left(job, wait_until)


def test_a_job_that_is_told_to_end_leaves_nothing(job, wait_until):
    script = job.program("stay")
    while (line := script.stdout.readline()) and not line.startswith("[["):
        pass
    assert line.startswith("[["), "the program did not get so far"
    script.terminate()
    script.communicate(timeout=40)
    assert script.returncode == 143
    check_nothing_left(job, wait_until)


def test_a_machine_that_does_not_come_is_named_by_their_number(job, wait_until):
    began = time.monotonic()
    said, _ = (script := job.program("0", BROKEN_MACHINE=MACHINES[2], EAGLERAY_START_SECONDS="4")).communicate(
        timeout=55
    )
    assert script.returncode == 1, said
    assert "nodes of its cluster: 2, of 3" in said
    assert "[[" not in said, "the program did not start"
    assert time.monotonic() - began > 4
    check_nothing_left(job, wait_until)


def test_without_a_program_there_is_nothing_to_do(job):
    said, _ = (script := job.start()).communicate(timeout=20)
    assert (script.returncode, "say what to run" in said) == (2, True)


def test_every_call_of_the_script_is_one_that_the_command_takes():
    calls = [parsed(call) for call in calls_in(SCRIPT.read_text())]
    head = [call for call in calls if getattr(call, "head", False)]
    joins = [call for call in calls if getattr(call, "token_file", None) == "-"]
    probes = [call for call in calls if getattr(call, "probe", False)]
    assert (len(calls), len(head), len(joins), len(probes)) == (4, 1, 1, 1)
    assert head[0].block
    assert joins[0].block
    assert str(SCRIPT.relative_to(ROOT)) in SCRIPT.read_text()
