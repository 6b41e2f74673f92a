"""Sessions used wrongly: twice, too late, from inside, with another interpreter, or after the node is gone."""

import concurrent.futures
import os
import re
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import ActorDiedError, LocalRayletDiedError, RaySystemError


@ray.remote
def works(value=1):
    return value


@ray.remote
class Actor:
    def works(self):
        return 1


def test_init_twice_says_what_to_do(ray_session):
    with pytest.raises(RuntimeError, match=r"ignore_reinit_error=True.*ray\.shutdown\(\)"):
        ray.init(num_cpus=1)
    assert ray.init(ignore_reinit_error=True)["session_dir"] == ray_session["session_dir"]
    assert ray.get(works.remote()) == 1


def test_init_with_an_unknown_keyword_names_it(no_session):
    with pytest.raises(RuntimeError, match="no_such_thing"):
        ray.init(no_such_thing=1)
    assert not ray.is_initialized()


def test_failed_init_leaves_nothing_behind(no_session, leaks):
    before = {process.pid for process in leaks.descendants(os.getpid())}
    folder = os.environ["EAGLERAY_TMPDIR"]
    folders = set(os.listdir(folder))
    for wrong, error, text in (
        ({"num_cpus": -1}, ValueError, "num_cpus cannot be negative"),
        ({"num_cpus": float("nan")}, ValueError, "num_cpus must be a finite number"),
        ({"resources": {"CPU": 1}}, AssertionError, "`CPU` cannot be a custom resource"),
        ({"object_store_memory": 5}, ValueError, "object_store_memory must be .* at least 1 MiB"),
    ):
        with pytest.raises(error, match=text):
            ray.init(**wrong)
        assert not ray.is_initialized()
    assert {process.pid for process in leaks.descendants(os.getpid())} == before
    assert set(os.listdir(folder)) == folders


def test_shutdown_in_a_task_is_an_error_of_that_task(ray_session):
    @ray.remote
    def end():
        ray.shutdown()

    with pytest.raises(RuntimeError, match="only the driver"):
        ray.get(end.remote())
    assert ray.get(works.remote()) == 1


def test_init_in_a_task_is_an_error_unless_it_may_be_ignored(ray_session):
    @ray.remote
    def start():
        with pytest.raises(RuntimeError, match="ignore_reinit_error"):
            ray.init(num_cpus=1)
        return ray.init(ignore_reinit_error=True)["session_dir"]

    assert ray.get(start.remote()) == ray_session["session_dir"]
    assert ray.get(works.remote()) == 1


def test_use_after_shutdown_says_so_where_nothing_starts_by_itself(drivers):
    code = """
    @ray.remote
    def works():
        return 1
    @ray.remote
    class Actor:
        def works(self):
            return 1
    ray.init(num_cpus=1)
    ref, actor = works.remote(), Actor.remote()
    assert ray.get([ref, actor.works.remote()]) == [1, 1]
    ray.shutdown()
    calls = {
        "get": lambda: ray.get(ref), "put": lambda: ray.put(1), "wait": lambda: ray.wait([ref]),
        "task": lambda: works.remote(), "actor": lambda: Actor.remote(), "method": lambda: actor.works.remote(),
        "kill": lambda: ray.kill(actor), "cancel": lambda: ray.cancel(ref), "resources": ray.cluster_resources,
        "nodes": ray.nodes, "context": ray.get_runtime_context, "find": lambda: ray.get_actor("x"),
    }
    for name, call in calls.items():
        try:
            call()
            print("worked", name)
        except (ray.exceptions.RayError, ValueError) as error:
            print("told", name, type(error).__name__, error)
    assert not ray.is_initialized()
    """
    out, err = drivers.run(code, env={"RAY_ENABLE_AUTO_CONNECT": 0})
    told = dict(line.split(maxsplit=2)[1:] for line in out.splitlines() if line.startswith("told"))
    assert "worked" not in out, out + err
    assert told.pop("method").startswith("ActorDiedError The actor is unknown here.")
    assert told.pop("kill").startswith("ActorHandleNotFoundError ActorHandle objects are not valid across Ray sessions")
    assert list(told.values()) == ["RaySystemError System error: Ray has not been started yet."] * 10


def test_use_after_shutdown_starts_a_new_session_by_default(no_session):
    ray.init(num_cpus=1)
    first = ray.get_runtime_context().get_node_id()
    actor = Actor.remote()
    ray.get(actor.works.remote())
    ray.shutdown()
    assert ray.get(works.remote()) == 1
    assert ray.get_runtime_context().get_node_id() != first
    with pytest.raises(ActorDiedError, match="different cluster"):
        actor.works.remote()


def test_shutdown_while_threads_wait_fails_their_waits(no_session):
    # Whoever looked up in the middle of the shutdown was told that it had called too late.
    ray.init(num_cpus=1)

    @ray.remote
    def sleep():
        time.sleep(600)

    ref = sleep.remote()
    errors = []

    def wait():
        try:
            ray.get(ref)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    ray.shutdown()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(errors) == 3
    assert [str(error) for error in errors] == ["The node died or was shut down before the task ended."] * 3
    assert all(isinstance(error, LocalRayletDiedError) for error in errors), errors


def test_shutdown_while_other_threads_submit_ends(no_session):
    ray.init(num_cpus=2)
    ends = threading.Event()
    errors = []

    def submit():
        while True:
            try:
                assert ray.get(works.remote()) == 1
            except BaseException as error:
                errors.append((ends.is_set(), error))
                return

    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
    from eagleray._driver.session import SESSION

    SESSION.auto_init_off = True
    try:
        threads = [threading.Thread(target=submit) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        ends.set()
        ray.shutdown()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
    finally:
        os.environ.pop("RAY_ENABLE_AUTO_CONNECT")
        SESSION.auto_init_off = False
    assert len(errors) == 3
    for is_at_the_end, error in errors:
        assert is_at_the_end, error
        told = {
            LocalRayletDiedError: "was shut down before the task ended",
            RaySystemError: "has not been started yet",
            ValueError: "owner is unknown",
        }
        assert told[type(error)] in str(error)


def framed(message):
    return struct.pack("<I", len(message)) + message


def number(value):
    """As postcard writes it: seven bits a byte, the lowest first; signed ones zigzag."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text(value):
    return number(len(value.encode())) + value.encode()


def own_protocol():
    wire = Path(__file__).parents[3] / "crates" / "wire" / "src" / "lib.rs"
    return int(re.search(r"PROTOCOL: u32 = (\d+);", wire.read_text())[1])


def hello(*, protocol=None, python="3.11", pid=None):
    """What a driver says first: variant 0 of the messages, then version, interpreter, pid and role."""
    pid = os.getpid() if pid is None else pid
    protocol = own_protocol() if protocol is None else protocol
    # No folders, no working directory, no variables, no alias, no lasting actors.
    surroundings = number(0) + text("") + number(0) + b"\x00\x00"
    role = number(0) + text("") + surroundings + b"\x01"
    return framed(number(0) + number(protocol) + text(python) + number(pid << 1) + role)


def answer(path, message):
    """What the node at `path` says to it; empty if it hangs up."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(path)
        link.sendall(message)
        try:
            return link.recv(65536)
        except ConnectionError:
            return b""


@pytest.fixture
def node_path(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    yield str(drivers.daemon_socket())
    # Whatever was said to it, it is still there.
    assert drivers.command("status").returncode == 0


def test_driver_of_another_python_version_is_refused_with_both_versions(node_path):
    own = "{}.{}".format(*__import__("sys").version_info[:2])
    said = answer(node_path, hello(python="3.7"))
    assert b"Version mismatch" in said
    assert f"Python {own}".encode() in said
    assert b"Python 3.7" in said
    # The same hello with the right version comes in.
    said = answer(node_path, hello(python=own))
    assert said
    assert b"mismatch" not in said


def test_driver_of_another_protocol_version_is_refused(node_path):
    said = answer(node_path, hello(protocol=99))
    assert b"protocol 99" in said
    assert b"same version of eagleray" in said
    # Also where another version says more behind that than this one understands.
    older = framed(number(0) + number(3) + b"\xff" * 3)
    assert b"protocol 3" in answer(node_path, older)


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 4,
        framed(b"\xff" * 50),
        framed(b""),
        hello()[:9],
        hello() + b"\xff" * 99,
    ],
    ids=["nothing", "http", "endless", "nonsense", "empty", "half", "then noise"],
)
def test_stranger_who_knocks_does_the_node_no_harm(node_path, noise):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(node_path)
        if noise:
            link.sendall(noise)
        time.sleep(0.05)


def test_driver_of_a_node_that_is_killed_gets_an_error_and_can_start_again(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    code = """
    ray.init(address="auto")
    @ray.remote
    def sleep():
        time.sleep(600)
    @ray.remote
    def works():
        return 1
    assert ray.get(works.remote()) == 1
    refs = [sleep.remote() for _ in range(3)]
    print("ready")
    for ref in refs:
        try:
            ray.get(ref)
        except ray.exceptions.RayError as error:
            print("told", type(error).__name__)
    try:
        works.remote()
    except ray.exceptions.RayError as error:
        print("told", type(error).__name__)
    print("initialized", ray.is_initialized())
    ray.shutdown()
    ray.init("local", num_cpus=1)
    print("works", ray.get(works.remote()))
    """
    driver = drivers.start(code)
    driver.hear_until("ready")
    node = _native.ask_node(str(drivers.daemon_socket()), "status", 10)["pid"]
    os.kill(node, 9)
    code, out, err = driver.end()
    assert code == 0, out + err
    assert out.count("told LocalRayletDiedError") == 4, out
    assert "initialized False" in out
    assert "works 1" in out


def test_runtime_errors_of_a_closed_session_are_typed():
    ray.shutdown()
    with pytest.raises(RaySystemError, match="has not been started"):
        _native.identity()


def test_threads_that_wait_for_futures_are_told_when_the_session_ends(no_session, signs):
    @ray.remote(num_cpus=0)
    def waits():
        signs.wait("never", 600)

    ray.init(num_cpus=1)
    asked, other = waits.remote().future(), waits.remote().future()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(asked.result)
        with pytest.raises(concurrent.futures.TimeoutError):
            asking.result(timeout=0.1)
        ray.shutdown()
        with pytest.raises(RaySystemError, match="shut down before the object was there"):
            asking.result(30)
    for future in (asked, other):
        assert isinstance(future.exception(30), RaySystemError)
