"""Machines that are folders: what runs with one of them finds nothing of the others by itself."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.python.conftest import Drivers
from tests.python.tools import path_of

from eagleray._node import process


class Machine(Drivers):
    """Nodes and programs that know each other."""

    def __init__(self):
        super().__init__(Path(tempfile.mkdtemp(prefix="er-")))

    def head(self, *options, **run):
        """Founds a cluster; the address, and the file of the token."""
        said = self.ok("start", "--head", "--num-cpus", "1", *options, **run)
        return re.search(r" at (\S+): ", said).group(1), Path(re.search(r"The token is in (\S+);", said).group(1))

    def join(self, address, *options, **run):
        """Starts a node that joins; its address."""
        said = self.ok("start", "--address", address, "--num-cpus", "1", *options, **run)
        return re.search(r" at (\S+): ", said).group(1)

    def ok(self, *arguments, **run):
        """What a command has printed that must not fail."""
        done = self.command(*arguments, **run)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fails(self, *arguments, **run):
        """What a command says that must fail, in few words."""
        done = self.command(*arguments, **run)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def status(self):
        return json.loads(self.ok("status", "--json"))

    def nodes(self):
        """The nodes that the cluster takes to be alive, by number."""
        return {node["number"]: node for node in self.status()["nodes"] if node["alive"]}

    def pids(self):
        """The processes of all nodes here."""
        return [json.loads(path.read_text())["pid"] for path in self.folder.glob("nodes/*/node.json")]

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def machine():
    made = Machine()
    yield made
    made.close()


@pytest.fixture
def elsewhere():
    """Another machine."""
    made = Machine()
    yield made
    made.close()


def hiding(folder):
    """A command behind which a folder is empty, and nobody can write to it."""
    rights = "-m" if os.geteuid() == 0 else "-Urm"
    return [path_of("unshare"), rights, "/bin/sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', str(folder)]


@pytest.fixture
def storage(tmp_path, monkeypatch):
    """Where experiments are kept: a folder that nodes which are started after this do not see."""
    folder = tmp_path / "storage"
    folder.mkdir()
    if subprocess.run([*hiding(folder), "/bin/true"], check=False).returncode != 0:
        pytest.skip("mounts cannot be hidden here")
    start = subprocess.Popen

    def start_elsewhere(command, *args, **options):
        is_node = "eagleray._node.tied" in command
        return start([*hiding(folder), *command] if is_node else command, *args, **options)

    monkeypatch.setattr(process.subprocess, "Popen", start_elsewhere)
    return folder
