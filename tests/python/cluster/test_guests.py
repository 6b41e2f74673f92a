"""Programs that join a cluster by its address: by a node that is here, else by one of their own."""

import os
import re
import signal
import socket
import textwrap

import pytest


def joined(code):
    """A program that joins the cluster at the address that it is given."""
    return "context = ray.init(sys.argv[1])\n" + textwrap.dedent(code)


@pytest.fixture
def cluster(machine, elsewhere):
    """A cluster on another machine than the test's programs: its address, and how they get in."""
    address, file = machine.head()
    return address, {"EAGLERAY_TOKEN_FILE": str(file)}


def test_a_program_on_another_machine_brings_a_node_that_offers_nothing(machine, elsewhere, cluster):
    address, env = cluster
    code = """
    assert context["gcs_address"] == sys.argv[1].removeprefix("ray://")
    assert ray.is_initialized()
    (head,) = ray.nodes()
    assert head["NodeID"] != ray.get_runtime_context().get_node_id()
    assert ray.cluster_resources()["CPU"] == 1
    assert ray.available_resources()["node:__internal_head__"] == 1
    print("in", flush=True)
    input()
    ray.shutdown()
    print("out", flush=True)
    input()
    """
    program = elsewhere.start(joined(code), f"ray://{address}", env=env)
    program.hear_until("in")
    guest = machine.nodes()[2]
    assert (guest["is_guest"], guest["address"], guest["total"]) == (True, None, {})
    assert re.search(r"a driver's +dials only", machine.ok("status"))
    program.say("on")
    program.hear_until("out")
    assert set(machine.nodes()) == {1}
    program.say("on")
    assert program.end()[0] == 0
    assert not list(elsewhere.folder.glob("session_*"))


def test_what_another_guest_owns_cannot_be_read_and_says_so(elsewhere, cluster):
    address, env = cluster
    keeper = """
    @ray.remote(num_cpus=0)
    class Keeper:
        def keep(self, held):
            self.held = held
        def held_by(self):
            return self.held
    keeper = Keeper.options(name="keeper", namespace="here", lifetime="detached").remote()
    ray.get(keeper.keep.remote([ray.put("value")]))
    print("kept", flush=True)
    input()
    """
    first = elsewhere.start(joined(keeper), address, env=env)
    first.hear_until("kept")
    reader = """
    (ref,) = ray.get(ray.get_actor("keeper", namespace="here").held_by.remote())
    try:
        ray.get(ref, timeout=30)
    except ray.exceptions.OwnerDiedError:
        print("lost", flush=True)
    """
    out, err = elsewhere.run(joined(reader), address, env=env)
    assert out == "lost\n"
    assert "have nodes of their own that take no calls" in err
    first.say("on")
    assert first.end()[0] == 0


def test_a_guest_listens_nowhere(elsewhere, cluster):
    address, env = cluster
    code = """
    listening = {line.split()[9] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}") if line.split()[3] == "0A"}
    own = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
    print(sum(f"socket:[{inode}]" in own for inode in listening))
    """
    assert elsewhere.run(joined(code), address, env=env)[0] == "0\n"


def test_a_guest_that_is_killed_leaves_the_cluster_and_nothing_here(machine, elsewhere, cluster, leaks, wait_until):
    address, env = cluster
    program = elsewhere.start(joined("print('in', flush=True)\ninput()"), address, env=env)
    program.hear_until("in")
    everyone = [program.pid, *(process.pid for process in leaks.descendants(program.pid))]
    program.kill(signal.SIGKILL)
    leaks.check(everyone)
    wait_until(lambda: set(machine.nodes()) == {1})


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "EAGLERAY_ADDRESS"])
def test_the_environment_says_which_cluster_is_meant(elsewhere, cluster, name):
    address, env = cluster
    out, _ = elsewhere.run("print(ray.init()['address'])", env={**env, name: address})
    assert out.strip() == address


def test_no_worker_finds_the_token_that_its_program_has(machine, elsewhere, cluster):
    address, _ = cluster
    (secrets,) = machine.folder.glob("secrets_*")
    token = (secrets / "token").read_text().strip()
    code = """
    @ray.remote
    def look():
        return os.environ.get("EAGLERAY_TOKEN")
    print(ray.get(look.remote(), timeout=30), os.environ["EAGLERAY_TOKEN"] == sys.argv[2])
    """
    out, _ = elsewhere.run(joined(code), address, token, env={"EAGLERAY_TOKEN": token})
    assert out == "None True\n"


def test_where_a_node_of_the_cluster_runs_programs_join_that(machine, cluster):
    address, _ = cluster
    code = """
    print(context["node_id"], context["raylet_socket_name"], context["address"])
    print(ray.get_runtime_context().get_node_id())
    """
    port = address.rpartition(":")[2]
    for given in (address, f"ray://{address}", f"localhost:{port}"):
        out, _ = machine.run(joined(code), given)
        node_id, path, shown = out.split()[:3]
        assert out.splitlines()[1] == node_id == machine.nodes()[1]["node_id"]
        assert (path, shown) == (str(machine.daemon_socket()), address)
    assert set(machine.nodes()) == {1}


def test_auto_is_the_head_where_several_nodes_run(machine, elsewhere, cluster):
    address, env = cluster
    machine.join(address)
    elsewhere.join(address, env=env)
    code = "print(ray.init('auto')['node_id'])"
    assert machine.run(code)[0].strip() == machine.nodes()[1]["node_id"]
    assert elsewhere.run(code)[0].strip() == machine.nodes()[3]["node_id"]
    # By the cluster's address it is the node that is here, which is not the head.
    assert elsewhere.run("print(ray.init(sys.argv[1])['node_id'])", address)[0].strip() == machine.nodes()[3]["node_id"]


def test_resources_are_the_clusters_wherever_one_asks(machine, elsewhere, cluster):
    address, env = cluster
    elsewhere.join(address, "--resources", '{"licence": 3}', env=env)
    code = """
    total, free = ray.cluster_resources(), ray.available_resources()
    assert (total["CPU"], total["licence"], total["node:__internal_head__"]) == (2, 3, 1), total
    assert (free["CPU"], free["licence"]) == (2, 3), free
    assert total["node:127.0.0.1"] == 2
    head, other = ray.nodes()
    assert head["Alive"] and other["Alive"]
    assert other["Resources"]["licence"] == 3
    assert "node:__internal_head__" not in other["Resources"]
    assert other["Labels"]["ray.io/node-id"] == other["NodeID"]
    assert {node["NodeManagerAddress"] for node in ray.nodes()} == {"127.0.0.1"}
    assert sys.argv[1].endswith(f":{head['NodeManagerPort']}")
    """
    for where in (machine, elsewhere):
        where.run(joined(code), address)


def test_a_program_that_does_not_get_in_says_why(elsewhere, cluster, tmp_path):
    address, env = cluster
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    (tmp_path / "empty").touch()
    code = """
    try:
        ray.init(sys.argv[1], **eval(sys.argv[2]))
    except (ConnectionError, PermissionError, ValueError) as error:
        print(type(error).__name__, error)
    print(ray.is_initialized())
    """
    for given, options, environ, why in [
        (address, {}, {}, "ValueError a token is needed to get into that cluster"),
        (address, {}, {"EAGLERAY_TOKEN_FILE": str(tmp_path / "empty")}, "ValueError there is no token in"),
        (address, {}, {"EAGLERAY_TOKEN": "x"}, "ValueError this is no token"),
        (address, {"num_cpus": 2}, env, "ValueError When connecting to an existing cluster, num_cpus"),
        (f"127.0.0.1:{nobody}", {}, env, "ConnectionError no head answers at"),
        ("no-such-name.invalid:6379", {}, env, "ConnectionError no-such-name.invalid: the name does not resolve"),
        ("nonsense", {}, env, "ConnectionError Cannot connect to 'nonsense'"),
        ("::1:6379", {}, env, "ValueError '::1:6379' is no address: an IPv6 address stands in brackets"),
    ]:
        out, _ = elsewhere.run(code, given, repr(options), env=environ)
        assert re.match(why, out), out
        assert out.endswith("False\n")
    assert not list(elsewhere.folder.glob("session_*"))


def test_a_second_session_of_a_program_is_another_guest(machine, elsewhere, cluster):
    address, env = cluster
    code = """
    for _ in range(3):
        ray.init(sys.argv[1])
        ray.shutdown()
    ray.init("local", num_cpus=1)
    assert ray.cluster_resources()["CPU"] == 1
    """
    elsewhere.run(code, address, env=env)
    assert set(machine.nodes()) == {1}


def test_a_guest_whose_head_is_killed_is_told(machine, elsewhere, cluster):
    address, env = cluster
    code = """
    @ray.remote
    def sleep():
        time.sleep(600)
    ref = sleep.remote()
    print("asked", flush=True)
    try:
        ray.get(ref, timeout=40)
    except Exception as error:
        print("told", type(error).__name__, flush=True)
    ray.shutdown()
    """
    program = elsewhere.start(joined(code), address, env=env)
    program.hear_until("asked")
    (pid,) = machine.pids()
    os.kill(pid, signal.SIGKILL)
    assert program.hear_until("told") != "GetTimeoutError"
    assert program.end()[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_machine_gets_neither_the_token_nor_the_node(machine, elsewhere, cluster):
    address, env = cluster
    code = """
    # The interpreter itself may lie where only root can read.
    ray.init("local", num_cpus=1)
    ray.shutdown()
    from eagleray._node import guest
    os.environ["EAGLERAY_TMPDIR"] += "/theirs"
    os.setgid(65534)
    os.setuid(65534)
    for given in sys.argv[1:]:
        try:
            ray.init(given)
        except (ConnectionError, ValueError) as error:
            print(error)
    """
    # The folders above are closed to others; what lies there is for its owner too.
    machine.folder.chmod(0o755)
    path = machine.daemon_socket()
    path.parent.chmod(0o755)
    path.chmod(0o666)
    theirs = elsewhere.folder / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    elsewhere.folder.chmod(0o755)
    out, err = elsewhere.run(code, address, path, env=env)
    told = out.splitlines()
    assert re.match(r"the file of the token cannot be read: .*: Permission denied", told[0]), out + err
    assert re.match(rf"(no node answers at {path}|the node at {path} belongs to another user)", told[1]), out + err
    assert set(machine.nodes()) == {1}
