"""A second program joins the session that a first one hosts: through a socket in the session's folder, and for as long as the host lives."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

HOST = """
context = ray.init(num_cpus=2, namespace="shared")

@ray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, by=1):
        self.count += by
        return self.count

    def pid(self):
        return os.getpid()

counter = Counter.options(name="counter").remote()
assert ray.get(counter.add.remote()) == 1
print("address", context["address"], flush=True)
print("session", context["session_dir"], flush=True)
for line in sys.stdin:
    print("result", eval(line), flush=True)
"""


class Host:
    """A program that hosts a session and does what it is told, line by line."""

    def __init__(self, drivers, **options):
        self.driver = drivers.start(HOST, **options)
        self.pid = self.driver.pid
        self.address = self.driver.hear_until("address")
        self.session = self.driver.hear_until("session")

    def eval(self, line):
        self.driver.say(line)
        return self.driver.hear_until("result")


@pytest.fixture
def host(drivers):
    return Host(drivers)


def below(leaks, pid):
    return [process.pid for process in leaks.descendants(pid)]


def test_L8a_auto_joins_the_session_that_another_program_hosts(host, drivers):
    code = """
    context = ray.init(address="auto", namespace="shared")
    print("session", context["session_dir"], context["address"])
    counter = ray.get_actor("counter")
    print("counted", ray.get(counter.add.remote(10)))
    print("sum", ray.get(ray.remote(lambda: sum(range(10))).remote()), ray.cluster_resources()["CPU"])
    """
    out, err = drivers.run(code)
    assert out.splitlines() == [f"session {host.session} {host.address}", "counted 11", "sum 45 2.0"], err
    assert host.eval("ray.get(counter.add.remote())") == "12"


@pytest.mark.parametrize("how", ["argument", "RAY_ADDRESS", "EAGLERAY_ADDRESS"])
def test_L8a_so_does_the_address_that_the_hosts_init_returned(host, drivers, how):
    code = """
    address = sys.argv[1] if len(sys.argv) > 1 else None
    print(ray.init(address=address)["session_dir"])
    """
    given = [host.address] if how == "argument" else []
    out, err = drivers.run(code, *given, env={} if how == "argument" else {how: host.address})
    assert out.strip() == host.session, err


def test_L8b_without_an_address_a_program_has_a_session_of_its_own(host, drivers):
    out, _ = drivers.run("print(ray.init(num_cpus=1)['session_dir'])")
    assert out.strip() != host.session
    out, _ = drivers.run("print(ray.init(address='local', num_cpus=1)['session_dir'])")
    assert out.strip() != host.session


def test_L8c_auto_is_the_newest_programs_session_that_lives(drivers, leaks, wait_until):
    hosts = [Host(drivers) for _ in range(3)]
    code = "print(ray.init(address='auto')['session_dir'])"
    assert drivers.run(code)[0].strip() == hosts[2].session
    # Nobody is left to remove the newest one's folder: its socket is there, and nobody listens.
    everyone = below(leaks, hosts[2].pid)
    os.kill(hosts[2].pid, signal.SIGSTOP)
    for pid in [*everyone, hosts[2].pid]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(leaks.is_alive(pid) for pid in everyone))
    hosts[2].driver.end()
    assert Path(hosts[2].session, "node.sock").is_socket()
    assert drivers.run(code)[0].strip() == hosts[1].session
    assert hosts[1].eval("ray.shutdown()") == "None"
    assert drivers.run(code)[0].strip() == hosts[0].session


def test_L8c_auto_is_the_daemon_if_one_runs(host, drivers):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    for code in ("print(ray.init('auto')['raylet_socket_name'])", "print(ray.init()['raylet_socket_name'])"):
        assert drivers.run(code)[0].strip() == str(drivers.daemon_socket())
    assert host.eval("ray.get(counter.add.remote())") == "2"


def test_L8c_a_program_that_does_not_answer_is_passed_over(host, drivers):
    folder = drivers.folder / "session_2999-01-01_00-00-00_1_000000"
    folder.mkdir(mode=0o700)
    deaf = socket.socket(socket.AF_UNIX)
    deaf.bind(str(folder / "node.sock"))
    deaf.listen()
    code = """
    from eagleray._node import finding
    finding.ANSWER_SECONDS = 0.5
    print(ray.init(address="auto")["session_dir"])
    ray.shutdown()
    try:
        ray.init(address=sys.argv[1])
    except ConnectionError as error:
        print(error)
    """
    out, err = drivers.run(code, folder / "node.sock")
    assert out.splitlines()[0] == host.session, err
    assert out.splitlines()[1].startswith(f"no node answers at {folder / 'node.sock'}: ")


def test_L8c_with_nothing_to_join_it_is_a_connection_error(drivers):
    code = """
    for address in ("auto", sys.argv[1]):
        try:
            ray.init(address=address)
        except ConnectionError as error:
            print(error)
    assert not ray.is_initialized()
    """
    out, _ = drivers.run(code, drivers.folder / "nowhere.sock")
    auto, path = out.splitlines()
    assert auto.startswith("Could not find any running Ray instance.")
    assert path.startswith(f"no node answers at {drivers.folder / 'nowhere.sock'}: ")


def test_L8d_the_socket_is_for_this_user_alone_and_goes_with_the_session(host):
    path = Path(host.address)
    assert path.parent == Path(host.session)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert host.eval("ray.shutdown()") == "None"
    assert not path.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_L8d_somebody_else_who_finds_the_way_in_is_not_heard(host, drivers):
    for path, mode in ((drivers.folder, 0o711), (host.session, 0o711), (host.address, 0o666)):
        os.chmod(path, mode)
    code = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
knocking = socket.socket(socket.AF_UNIX)
knocking.connect(sys.argv[1])
knocking.settimeout(20)
print("heard", knocking.recv(100))
"""
    done = subprocess.run([sys.executable, "-S", "-c", code, host.address], capture_output=True, text=True, timeout=40)
    assert done.stdout.strip() == "heard b''", done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_L8d_nobody_joins_somebody_else(drivers):
    drivers.folder.chmod(0o777)
    path = drivers.folder / "foreign.sock"
    code = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("listens", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as stranger:
        assert stranger.stdout.readline() == "listens\n"
        _, err = drivers.run("ray.init(address=sys.argv[1])", path, code_wanted=1)
        assert f"ConnectionError: the node at {path} belongs to another user" in err
        stranger.stdin.close()


def test_L8d_a_folder_with_a_long_name_can_be_joined_too(drivers):
    folder = drivers.folder / ("long" * 50)
    folder.mkdir()
    host = Host(drivers, env={"EAGLERAY_TMPDIR": folder})
    assert len(host.address) > 200
    code = "print(ray.init(address=sys.argv[1])['session_dir'])"
    for address in ("auto", host.address):
        assert drivers.run(code, address, env={"EAGLERAY_TMPDIR": folder})[0].strip() == host.session


def test_L8e_resources_belong_to_the_host(host, drivers):
    code = """
    for given in ({"num_cpus": 1}, {"resources": {"a": 1}}, {"object_store_memory": 2**27}):
        try:
            ray.init(address="auto", **given)
        except ValueError as error:
            print(error)
    """
    out, _ = drivers.run(code)
    assert out.count("When connecting to an existing cluster") == 3


def test_L8f_namespaces_and_lives_of_actors_are_as_between_drivers_of_a_daemon(host, drivers, leaks, wait_until):
    code = """
    ray.init(address="auto", namespace="guests")

    @ray.remote(num_cpus=0)
    class Own:
        def pid(self):
            return os.getpid()

    try:
        ray.get_actor("counter")
    except ValueError:
        print("not in this namespace")
    ray.get_actor("counter", namespace="shared")
    own = Own.options(name="own").remote()
    detached = Own.options(name="detached", lifetime="detached").remote()
    print("pids", *ray.get([own.pid.remote(), detached.pid.remote()]))
    """
    out, err = drivers.run(code)
    assert "not in this namespace" in out, err
    own, detached = map(int, re.search(r"pids (\d+) (\d+)", out).groups())
    wait_until(lambda: not leaks.is_alive(own), what="the end of an actor with its driver")
    assert host.eval("ray.get(ray.get_actor('detached', namespace='guests').pid.remote())") == str(detached)
    assert host.eval("ray.shutdown()") == "None"
    leaks.check([detached], host.session)


def test_L8g_each_program_sees_what_its_own_workers_print(host, drivers):
    code = """
    ray.init(address="auto")

    @ray.remote
    def says():
        print("said to the guest", flush=True)

    ray.get(says.remote())
    """
    out, _ = drivers.run(code)
    assert "said to the guest" in out
    assert host.eval("ray.get(ray.remote(lambda: print('said to the host', flush=True)).remote())") == "None"
    code, out, err = host.driver.end()
    assert code == 0, err
    assert "said to the guest" not in out + err
    assert "said to the guest" not in "".join(host.driver.said)


GUEST = """
ray.init(address="auto", namespace="shared")
counter = ray.get_actor("counter")

@ray.remote
def never():
    time.sleep(600)

@ray.remote(num_cpus=0)
class Own:
    def never(self):
        time.sleep(600)

    def pid(self):
        return os.getpid()

own = Own.remote()
value = ray.put(b"x" * 1_000_000)
print("pid", ray.get(own.pid.remote()), flush=True)
refs = {"task": never.remote(), "call": own.never.remote()}
"""


@pytest.mark.parametrize("how", ["SIGKILL", "shutdown", "exit"])
def test_L8h_the_end_of_the_host_is_an_error_that_names_it(host, drivers, leaks, how):
    code = (
        GUEST
        + """
print("ready", flush=True)
refs["later"] = None
for what, ref in refs.items():
    try:
        ray.get(ref if ref is not None else never.remote())
    except ray.exceptions.RayError as error:
        print("told", what, type(error).__name__, " ".join(str(error).split()), flush=True)
print("is_initialized", ray.is_initialized(), flush=True)
ray.shutdown()
ray.init(num_cpus=1)
print("again", ray.get(ray.remote(lambda: 7).remote()), flush=True)
"""
    )
    guest = drivers.start(code)
    guest.hear_until("ready")
    everyone = below(leaks, host.pid)
    if how == "SIGKILL":
        os.kill(host.pid, signal.SIGKILL)
    elif how == "shutdown":
        host.driver.say("ray.shutdown()")
    else:
        host.driver.process.stdin.close()
    told = [guest.hear_until("told") for _ in range(3)]
    assert [line.split()[0] for line in told] == ["task", "call", "later"]
    assert [line.split()[1] for line in told] == ["LocalRayletDiedError"] * 3
    for line in told:
        assert f"the program that hosts this session (process {host.pid}) has ended it, or has ended" in line
    assert guest.hear_until("is_initialized") == "False"
    assert guest.hear_until("again") == "7"
    assert guest.end()[0] == 0
    leaks.check(everyone, host.session)


def test_L8i_the_end_of_a_guest_takes_what_is_its_own_and_leaves_the_host(host, drivers, leaks, wait_until):
    guest = drivers.start(GUEST + "print('ready', flush=True)\ntime.sleep(600)\n")
    actor = int(guest.hear_until("pid"))
    guest.hear_until("ready")
    assert host.eval("ray.available_resources()['CPU']") == "1.0"
    guest.kill()
    guest.end()
    leaks.check([actor])
    assert host.eval("ray.get(counter.add.remote())") == "2"

    def everything_is_free():
        return host.eval("ray.available_resources()['CPU']") == "2.0"

    wait_until(everything_is_free)
    everyone = below(leaks, host.pid)
    code, _, err = host.driver.end()
    assert code == 0, err
    leaks.check([*everyone, host.pid], host.session)


def test_L8j_status_and_memory_show_a_programs_session(host, drivers):
    for options in ([], ["--address", host.address], ["--address", "auto"]):
        shown = drivers.command("status", *options)
        assert f"pid {host.pid}" in shown.stdout, shown.stderr
        assert "Counter" in shown.stdout
    assert drivers.command("memory", "--address", host.address).returncode == 0
    wrong = drivers.command("status", "--address", str(drivers.folder / "nowhere.sock"))
    assert wrong.returncode == 1
    assert "no node answers at" in wrong.stderr
    # `stop` is for the daemon: a program ends its session itself.
    assert "No daemon of yours is running" in drivers.command("stop").stdout
    assert host.eval("ray.get(counter.add.remote())") == "2"


def test_L8k_a_value_that_the_host_gives_away_is_read_in_place_by_the_guest(host, drivers):
    pytest.importorskip("numpy")
    code = "__import__('numpy').arange(1_000_000)"
    assert host.eval(f"globals().update(kept=ray.put({code}))") == "None"
    assert (
        host.eval("ray.get(counter.__ray_call__.remote(lambda self, box: setattr(self, 'box', box), [kept]))") == "None"
    )
    out, err = drivers.run(
        """
        ray.init(address="auto", namespace="shared")
        counter = ray.get_actor("counter")
        [ref] = ray.get(counter.__ray_call__.remote(lambda self: self.box))
        array = ray.get(ref)
        print(array.sum(), array.flags.writeable)
        """
    )
    assert out.split() == ["499999500000", "False"], err
