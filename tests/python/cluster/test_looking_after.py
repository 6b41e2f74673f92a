"""Clusters that programs look after: secrets that were made before the head, nodes that are there before it, and a look for probes."""

import fcntl
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest
from tests.python.conftest import descendants

from eagleray._node import old_sessions

#: What waits for patience to end: with all tests only.
SLOW = pytest.mark.skipif(not os.environ.get("EAGLERAY_TEST_ALL"), reason="takes long: EAGLERAY_TEST_ALL=1 runs it")


@pytest.fixture
def port():
    """A port that nobody has, as far as is known."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def secrets(machine, tmp_path):
    folder = tmp_path / "secrets"
    said = machine.ok("token", "new", folder)
    assert f"The token is in {folder}/token;" in said
    assert (folder / "token").read_text().strip() not in said
    return folder


def background(machine, *arguments, **popen):
    """A command that runs on; it ends with the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "eagleray", *map(str, arguments)],
        env=machine.environ(),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **popen,
    )
    machine.started.append(process)
    return process


def kill_node(machine):
    (pid,) = machine.pids()
    os.kill(pid, signal.SIGKILL)


def test_secrets_can_be_made_before_there_is_a_head(machine, elsewhere, secrets, leaks):
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    assert before.keys() == {"authority", "token", "tokens"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets.iterdir())
    address, file = machine.head("--secrets", secrets)
    assert file.read_bytes() == before["token"]
    assert file.parent != secrets
    elsewhere.join(address, "--token-file", secrets / "token")
    assert set(machine.nodes()) == {1, 2}
    # What the head does with its tokens is the running cluster's matter.
    machine.ok("token", "rotate", "--grace", "0")
    assert "expired" in elsewhere.fails("start", "--address", address, "--token-file", secrets / "token")
    elsewhere.ok("stop")
    machine.ok("stop")
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before
    leaks.check([], file.parent)


@pytest.mark.slow
@SLOW
def test_a_head_that_is_started_again_takes_nodes_by_the_same_token(machine, elsewhere, secrets, port):
    """The nodes of its former life are no members of its new one, though their certificates are of the same authority."""
    address, _ = machine.head("--secrets", secrets, "--port", str(port))
    old = background(
        elsewhere, "start", "--address", address, "--token-file", secrets / "token", "--num-cpus", 1, "--block"
    )
    machine.ok("status", "--probe", "--nodes", "2", "--wait", "20")
    kill_node(machine)
    machine.head("--secrets", secrets, "--port", str(port))
    assert set(machine.nodes()) == {1}
    machine.join("auto")
    time.sleep(1.5)
    assert [node["number"] for node in machine.nodes().values()] == [1, 2]
    said, _ = old.communicate(timeout=45)
    assert old.returncode == 1
    assert re.search("the node has left its cluster: nothing was heard of it for 30 s: .* in its life", said), said
    assert set(machine.nodes()) == {1, 2}


def test_secrets_are_not_made_over_others_and_only_where_they_can_be(machine, secrets, tmp_path):
    before = (secrets / "authority").read_bytes()
    assert "already: choose another folder" in machine.fails("token", "new", secrets)
    assert (secrets / "authority").read_bytes() == before
    assert "nowhere" in machine.fails("token", "new", tmp_path / "nowhere" / "below")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    assert "others may look into it" in machine.fails("token", "new", open_to_all)


def test_secrets_that_are_no_good_are_refused_before_anything_is_left(machine, secrets, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    said = machine.fails("start", "--head", "--secrets", empty)
    assert re.search("the secrets of the cluster cannot be read: .*/empty/authority: No such file.*token new", said), (
        said
    )
    (secrets / "authority").write_bytes(b"nonsense")
    assert "authority" in machine.fails("start", "--head", "--secrets", secrets)
    assert "a head waits for nobody" in machine.fails("start", "--head", "--wait", "1")
    assert "--secrets is for the head" in machine.fails("start", "--address", "127.0.0.1:1", "--secrets", secrets)
    assert not list(machine.folder.glob("session_*"))
    assert not list(machine.folder.glob("secrets_*"))


def test_a_head_takes_secrets_that_others_own_and_warns_of_those_that_all_can_read(machine, secrets, tmp_path):
    # As Kubernetes hands them out: links, which this user may only read.
    handed = tmp_path / "handed"
    handed.mkdir()
    for name in ("authority", "tokens"):
        (secrets / name).chmod(0o440)
        (handed / name).symlink_to(secrets / name)
    done = machine.command("start", "--head", "--num-cpus", "1", "--secrets", handed)
    assert (done.returncode, done.stderr) == (0, "")
    (own,) = machine.folder.glob("secrets_*")
    assert {stat.S_IMODE(path.stat().st_mode) for path in own.iterdir()} == {0o600}
    machine.ok("stop")
    (secrets / "authority").chmod(0o444)
    done = machine.command("start", "--head", "--num-cpus", "1", "--secrets", handed)
    assert done.returncode == 0
    assert f"everybody on this machine can read the token in {handed}/authority" in done.stderr


def test_a_node_waits_for_its_head_as_long_as_it_is_told(machine, elsewhere, secrets, port):
    began = time.monotonic()
    said = elsewhere.fails(
        "start", "--address", f"127.0.0.1:{port}", "--token-file", secrets / "token", "--wait", "1.5"
    )
    assert "no head answers" in said
    assert time.monotonic() - began > 1.5
    waiting = background(
        elsewhere,
        *("start", "--address", f"127.0.0.1:{port}", "--token-file", secrets / "token", "--wait", 40, "--num-cpus", 1),
    )
    time.sleep(1.0)
    assert waiting.poll() is None
    machine.head("--secrets", secrets, "--port", str(port))
    said, _ = waiting.communicate(timeout=20)
    assert waiting.returncode == 0, said
    machine.ok("status", "--probe", "--nodes", "2", "--wait", "10")


def test_who_waits_for_a_head_can_be_ended(elsewhere, secrets, port):
    for number, options in ((signal.SIGTERM, ["--block"]), (signal.SIGINT, [])):
        waiting = background(
            elsewhere,
            *("start", "--address", f"127.0.0.1:{port}", "--token-file", secrets / "token", "--wait", 600, *options),
        )
        time.sleep(1.5)
        children = [process.pid for process in descendants(waiting.pid)]
        waiting.send_signal(number)
        waiting.communicate(timeout=20)
        assert waiting.returncode not in (0, None)
        deadline = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{pid}") for pid in children):
            assert time.monotonic() < deadline, "what waits in the background goes too"
            time.sleep(0.05)
    assert not list(elsewhere.folder.glob("session_*"))


def test_a_token_that_the_head_refuses_is_not_tried_again(machine, elsewhere, secrets, tmp_path):
    address, _ = machine.head()
    began = time.monotonic()
    said = elsewhere.fails("start", "--address", address, "--token-file", secrets / "token", "--wait", "30")
    assert "the token is of another cluster" in said
    assert time.monotonic() - began < 20


def test_a_probe_tells_by_its_status_whether_a_node_is_there(machine, elsewhere):
    none = machine.command("status", "--probe")
    assert (none.returncode, none.stdout, none.stderr) == (1, "no node of yours answers\n", "")
    address, file = machine.head()
    (pid,) = machine.pids()
    assert machine.ok("status", "--probe") == f"the node answers (pid {pid})\n"
    assert machine.ok("status", "--probe", "--address", address, "--nodes", "1").endswith("nodes of its cluster: 1\n")
    short = machine.command("status", "--probe", "--nodes", "2")
    assert (short.returncode, short.stdout) == (1, f"the node answers (pid {pid}); nodes of its cluster: 1, of 2\n")
    other = machine.command("status", "--probe", "--address", "127.0.0.1:1")
    assert (other.returncode, other.stdout) == (
        1,
        "no node of yours answers that belongs to the cluster at 127.0.0.1:1\n",
    )
    waiting = background(machine, "status", "--probe", "--nodes", "2", "--wait", "30")
    elsewhere.join(address, "--token-file", file)
    said, _ = waiting.communicate(timeout=35)
    assert (waiting.returncode, said.endswith("nodes of its cluster: 2\n")) == (0, True), said
    # One that is killed leaves its facts behind.
    kill_node(machine)
    assert machine.command("status", "--probe").returncode == 1


def test_a_probe_counts_neither_programs_nor_their_nodes(machine, elsewhere):
    program = elsewhere.start("ray.init(num_cpus=1); print('up', flush=True); sys.stdin.readline()")
    program.hear_until("up")
    assert elsewhere.command("status", "--probe").returncode == 1
    program.say("")
    program.end()
    address, file = machine.head()
    guest = elsewhere.start(
        "ray.init(sys.argv[1]); print('up', flush=True); sys.stdin.readline()",
        address,
        env={"EAGLERAY_TOKEN_FILE": file},
    )
    guest.hear_until("up")
    assert len(machine.nodes()) == 2
    assert machine.ok("status", "--probe", "--nodes", "1").endswith("nodes of its cluster: 1\n")
    assert machine.command("status", "--probe", "--nodes", "2").returncode == 1
    guest.say("")
    guest.end()


@SLOW
def test_a_probe_of_a_node_that_is_stopped_ends(machine):
    machine.head()
    (pid,) = machine.pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        done = machine.command("status", "--probe")
        assert (done.returncode, done.stdout) == (1, "no node of yours answers\n")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_what_goes_with_a_probe_goes_with_nothing_else(machine):
    for options in (("--nodes", "2"), ("--wait", "1")):
        done = machine.command("status", *options)
        assert (done.returncode, "--nodes and --wait go with --probe" in done.stderr) == (2, True)
    assert machine.command("status", "--probe", "--wait", "soon").returncode == 2


def test_a_session_of_a_former_first_process_is_dead(tmp_path, monkeypatch):
    """In a container that is started again the node has the pid of the one before, whose folder and secrets then stayed for ever."""
    for kept in range(11):
        session = tmp_path / f"session_2026-01-01_00-00-{kept:02}_1_{kept}"
        session.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    secrets = tmp_path / session.name.replace("session_", "secrets_")
    secrets.mkdir(mode=0o700)
    (secrets / "token").write_text("secret")
    old_sessions.remove(tmp_path)
    assert not secrets.exists()
    assert len(list(tmp_path.glob("session_*"))) == 10
    # One that runs holds the lock of its folder.
    handle = os.open(session, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    secrets.mkdir(mode=0o700)
    old_sessions.remove(tmp_path)
    assert secrets.exists()
    os.close(handle)
