"""Nodes that found clusters, join them and leave: what the commands say, and what they leave behind."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys

import pytest


def below(leaks, pids):
    return [*pids, *(process.pid for pid in pids for process in leaks.descendants(pid))]


def read_all(folder):
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def test_a_head_says_how_to_join_and_where_the_token_is_and_nobody_else_can_read_that(machine, leaks):
    done = machine.command("start", "--head", "--num-cpus", "1", env={"EAGLERAY_TOKEN": "a secret of before"})
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"More nodes join it on this machine with: eagleray start --address 127\.0\.0\.1:\d+\n", done.stdout
    )
    (secrets,) = machine.folder.glob("secrets_*")
    token = (secrets / "token").read_text().strip()
    assert f"The token is in {secrets}/token;" in done.stdout
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets.iterdir()} == {0o600}
    said = done.stdout + done.stderr + machine.ok("status", "-v") + machine.ok("token", "list") + machine.ok("memory")
    everyone = below(leaks, machine.pids())
    assert len(everyone) > 2
    for pid in everyone:
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", errors="replace") as file:
                said += file.read()
    (session,) = machine.folder.glob("session_*")
    said += read_all(session)
    assert token not in said
    assert "a secret of before" not in said
    machine.ok("stop")
    leaks.check(everyone, secrets)


def test_several_nodes_of_one_machine_join_without_a_word_of_tokens(machine, leaks):
    address, _ = machine.head()
    machine.join(address, "--labels", "zone=north", "--node-name", "second", "--resources", '{"licence": 2}')
    machine.join("auto")
    nodes = machine.nodes()
    assert {node["name"] for node in nodes.values()} == {socket.gethostname(), "second"}
    (second,) = (node for node in nodes.values() if node["name"] == "second")
    assert second["labels"] == {"zone": "north"}
    assert second["total"]["licence"] == 20_000
    assert [number for number, node in nodes.items() if "node:__internal_head__" in node["total"]] == [1]
    assert all(node["total"]["node:127.0.0.1"] == 10_000 for node in nodes.values())
    shown = machine.ok("status")
    assert re.search(r"^Nodes \(3\):$", shown, re.M)
    assert re.search(r"^  CPU +0 / 3$", shown, re.M)
    assert re.search(r"^ \* +1  head  .*127\.0\.0\.1", shown, re.M)
    assert re.search(r"^ +\d  node .* second  .*licence 0/2.*zone=north$", shown, re.M)
    everyone = below(leaks, machine.pids())
    stopped = machine.ok("stop")
    assert stopped.count("Node stopped") == 3
    leaks.check(everyone, *machine.folder.glob("secrets_*"))
    assert list(machine.folder.glob("nodes/*")) == []
    for session in machine.folder.glob("session_*"):
        assert [path.name for path in session.iterdir() if path.name != "labels.json"] == ["logs"]
    assert machine.ok("stop") == "No daemon of yours is running.\n"


@pytest.mark.parametrize("way", ["file", "stdin", "environment", "file of the environment"])
def test_the_token_comes_from_a_file_from_stdin_or_from_the_environment(machine, elsewhere, leaks, way):
    address, file = machine.head()
    token = file.read_text()
    if way == "file":
        elsewhere.join(address, "--token-file", file)
    elif way == "stdin":
        elsewhere.join(address, "--token-file", "-", input=token)
    elif way == "environment":
        elsewhere.join(address, env={"EAGLERAY_TOKEN": token})
    else:
        elsewhere.join(address, env={"EAGLERAY_TOKEN_FILE": file})
    assert set(machine.nodes()) == {1, 2}
    for pid in below(leaks, elsewhere.pids()):
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", errors="replace") as about:
                assert token.strip() not in about.read()
    assert token.strip() not in read_all(elsewhere.folder)


def test_who_can_read_a_token_that_everybody_can_read_is_told_so(machine, elsewhere, tmp_path):
    address, file = machine.head()
    copy = tmp_path / "token"
    copy.write_text(file.read_text())
    copy.chmod(0o644)
    done = elsewhere.command("start", "--address", address, "--num-cpus", "1", "--token-file", copy)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"everybody on this machine can read the token in {copy}: chmod 600", done.stderr)


@pytest.fixture(scope="module")
def foreign():
    """The token of a cluster that has ended."""
    from tests.python.cluster.conftest import Machine

    made = Machine()
    _, file = made.head()
    token = file.read_text().strip()
    made.close()
    return token


def test_a_node_without_the_right_token_is_told_what_is_wrong(machine, elsewhere, foreign, tmp_path):
    address, file = machine.head()
    token = file.read_text().strip()
    middle = len(token) // 2
    mistyped = token[:middle] + ("B" if token[middle] == "A" else "A") + token[middle + 1 :]
    for given, why in {
        None: "a token is needed.*--token-file.*EAGLERAY_TOKEN_FILE.*EAGLERAY_TOKEN",
        "password": "this is no token: one begins with",
        token[:-3]: "characters after its prefix and should have",
        mistyped: "mistyped",
        foreign: "the token is of another cluster",
        "two words": "what .* holds is no token",
        " ": "there is no token in .*: it is empty",
    }.items():
        options = ()
        if given is not None:
            (tmp_path / "given").write_text(given)
            (tmp_path / "given").chmod(0o600)
            options = ("--token-file", tmp_path / "given")
        said = elsewhere.fails("start", "--address", address, *options)
        assert re.search(why, said), said
        assert not given or given == " " or given not in said
    assert re.search(
        "cannot be read: .*nowhere", elsewhere.fails("start", "--address", address, "--token-file", "/nowhere")
    )
    assert set(machine.nodes()) == {1}
    assert not list(elsewhere.folder.glob("session_*")), "nothing of a node that was not let in is left"


def test_tokens_are_listed_by_name_and_replaced(machine, elsewhere):
    address, file = machine.head()
    first = file.read_text()
    machine.join(address)
    names = re.findall(r"^([0-9a-f]{16})  made .*valid until it is replaced$", machine.ok("token", "list"), re.M)
    assert len(names) == 1
    assert f"A new token is in {file}; the former ones are valid until" in machine.ok(
        "token", "rotate", "--grace", "1h"
    )
    second = file.read_text()
    assert second != first
    listed = machine.ok("token", "list")
    assert re.search(rf"^{names[0]}  made .*valid until 20", listed, re.M), listed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    elsewhere.join(address, env={"EAGLERAY_TOKEN": first})
    assert "the former ones have expired" in machine.ok("token", "rotate", "--grace", "0")
    for former in (first, second):
        assert "the token has expired" in elsewhere.fails("start", "--address", address, env={"EAGLERAY_TOKEN": former})
    elsewhere.join(address, env={"EAGLERAY_TOKEN": file.read_text()})
    assert len(machine.nodes()) == 4, "who belongs to the cluster stays"
    shown = machine.ok("token", "list")
    assert first.strip() not in shown
    assert file.read_text().strip() not in shown


def test_tokens_are_kept_where_the_head_is(elsewhere):
    assert re.search("no head of yours runs on this machine", elsewhere.fails("token", "list"))
    bad = elsewhere.command("token", "rotate", "--grace", "soon")
    assert (bad.returncode, "'soon' is no time such as 90s" in bad.stderr) == (2, True)


SPEAKER = """
ray.init(sys.argv[1])

@ray.remote
def speak():
    print("hello")

ray.get(speak.remote())
ray.shutdown()
"""
TOKEN_OF_NOBODY = {"EAGLERAY_TOKEN": "eagleray1-whatever"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "say --head to found a cluster, or --address HOST:PORT"),
        (("--head", "--address", "127.0.0.1:1"), "and not both"),
        (("--head", "--token-file", "-"), "a head makes its token itself"),
        (("--address", "auto"), "no head of yours runs on this machine"),
        (("--address", "localhost"), "no address: give HOST:PORT"),
        (("--address", "localhost:99999"), "no address: give HOST:PORT, with a port from 1 to 65535"),
        (("--address", "::1:6379"), "an IPv6 address stands in brackets"),
        (("--head", "--node-ip-address", "0.0.0.0"), "others cannot reach 0.0.0.0.*--bind-address 0.0.0.0"),
        (("--head", "--node-ip-address", "::"), "others cannot reach ::, .*--bind-address ::"),
        (("--head", "--node-ip-address", "198.51.100.7"), "this machine has no address 198.51.100.7.*--bind-address"),
        (("--head", "--node-ip-address", "no-such-name.invalid"), "no-such-name.invalid: the name does not resolve"),
        (("--head", "--bind-address", "localhost"), "--bind-address takes an IP address"),
        (("--head", "--temp-dir", "here"), "temp_dir must be an absolute path"),
        (("--head", "--labels-file", "/nowhere"), "the file of labels cannot be read: /nowhere"),
        (("--head", "--memory", "-4"), "quantity of resource memory cannot be negative"),
        (("--head", "--memory", "9" * 30), "quantity of resource memory is too large"),
        (
            ("--head", "--system-config", '{"max_lineage_bytes": [1]}'),
            r"the setting max_lineage_bytes must be a finite number, not \[1\]",
        ),
    ],
)
def test_what_cannot_be_started_says_why(elsewhere, options, why):
    said = elsewhere.fails("start", *options, env=TOKEN_OF_NOBODY)
    assert re.search(why, said), said
    assert not list(elsewhere.folder.glob("s*_*"))


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--port", "abc", "abc is no port: give a number from 0 to 65535"),
        ("--resources", "{bad", r"'\{bad' is not JSON \(.*\): give amounts by name, as in '\{\"licence\": 2\}'"),
        ("--resources", "[1]", r"'\[1\]' is no object of JSON: give amounts by name"),
        ("--resources", '{"CPU": 3}', "CPU is no resource of one's own: say --num-cpus instead"),
        ("--resources", '{"object_store_memory": 3}', "say --object-store-memory instead"),
        ("--resources", '{"licence": "2"}', "The quantity of resource licence must be a number"),
        ("--resources", '{"licence": -2}', "The quantity of resource licence cannot be negative"),
        ("--system-config", "[1]", r"'\[1\]' is no object of JSON: give settings by name"),
        ("--node-name", "é" * 150, "a name has at most 256 bytes, and this one has 300"),
        ("--node-name", "red\x1b[31m", r"'red\\x1b\[31m' is no name: it has control characters, or is not UTF-8"),
        ("--node-name", b"\xff", "is no name: it has control characters, or is not UTF-8"),
    ],
)
def test_a_value_that_an_option_cannot_take_is_refused_with_what_it_takes(elsewhere, option, value, why):
    given = os.fsdecode(value) if isinstance(value, bytes) else value
    done = elsewhere.command("start", "--head", option, given)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(rf"^eagleray start: error: argument {option}: .*{why}", done.stderr, re.M), done.stderr
    assert not list(elsewhere.folder.glob("s*_*"))


def test_a_name_may_be_as_long_as_other_nodes_take_it(machine):
    machine.head("--node-name", "é" * 128)
    assert machine.nodes()[1]["name"] == "é" * 128


@pytest.fixture
def taken():
    """A port that somebody listens at who is no node, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_that_is_taken_is_named(machine, taken):
    why = rf"port {taken} at 127\.0\.0\.1 is taken: give another one by --port; --port 0 takes any"
    assert re.search(why, machine.fails("start", "--head", "--port", taken))
    assert re.search(why, machine.fails("start", "--head", env={"EAGLERAY_GCS_SERVER_PORT": taken}))
    address, _ = machine.head()
    assert re.search(why, machine.fails("start", "--address", address, "--port", taken))
    beyond = machine.command("start", "--head", "--port", "65536")
    assert (beyond.returncode, "65536 is no port" in beyond.stderr) == (2, True)


def test_where_no_head_is_one_is_told(elsewhere, foreign, taken):
    given = {"EAGLERAY_TOKEN": foreign}
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    said = elsewhere.fails("start", "--address", f"127.0.0.1:{nobody}", env=given)
    assert re.search(rf"no head answers at 127\.0\.0\.1:{nobody}: Connection refused", said), said
    said = elsewhere.fails("start", "--address", "no-such-name.invalid:6379", env=given)
    assert re.search(r"no-such-name\.invalid: the name does not resolve", said), said


def test_nodes_at_ipv6_addresses_find_each_other(machine, elsewhere):
    address, file = machine.head("--node-ip-address", "::1")
    assert re.fullmatch(r"\[::1\]:\d+", address)
    assert re.fullmatch(r"\[::1\]:\d+", elsewhere.join(address, "--token-file", file))
    assert all("node:::1" in node["total"] for node in machine.nodes().values())
    code = """
    ray.init(sys.argv[1])
    print(sorted(node["NodeManagerAddress"] for node in ray.nodes()), ray.util.get_node_ip_address())
    """
    out, _ = machine.run(code, address)
    assert out == "['::1', '::1'] ::1\n"


def test_a_node_may_listen_elsewhere_than_others_reach_it(machine, elsewhere):
    address, file = machine.head("--node-ip-address", "127.0.0.1", "--bind-address", "0.0.0.0")
    assert address.startswith("127.0.0.1:")
    port = address.rpartition(":")[2]
    # By another address of this machine: the head says by which one it is known.
    elsewhere.join(f"127.0.0.2:{port}", "--token-file", file)
    assert machine.nodes()[1]["address"] == address
    out, _ = machine.run("print(ray.init(sys.argv[1])['node_id'])", f"127.0.0.2:{port}")
    assert out.strip() == machine.nodes()[1]["node_id"], "that very node is here"


def test_labels_come_from_the_command_from_a_file_and_from_whoever_runs_the_machine(machine, tmp_path):
    (tmp_path / "labels").write_text("# of this rack\nrack: 'r7'\nzone: south\n")
    env = {"RAY_NODE_ZONE": "zone-b", "RAY_NODE_TYPE_NAME": "small"}
    machine.head("--labels-file", tmp_path / "labels", "--labels", "zone=north", env=env)
    assert machine.nodes()[1]["labels"] == {
        "rack": "r7",
        "zone": "north",
        "ray.io/availability-zone": "zone-b",
        "ray.io/node-group": "small",
    }


def test_rays_options_without_effect_say_so_once(machine):
    done = machine.command("start", "--head", "--metrics-export-port", "1", "--no-monitor", "--metrics-export-port=2")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "eagleray: of no effect here: --metrics-export-port, --no-monitor\n"
    shown = machine.ok("start", "--help")
    assert "--no-monitor" not in shown
    assert "--verbose" not in shown


@pytest.mark.parametrize(("given", "told"), [("-v", "-v"), ("-vv", "-v"), ("--verbose", "--verbose")])
def test_a_node_is_started_verbosely_as_any_other(machine, given, told):
    done = machine.command("start", "--head", "--num-cpus", "1", given)
    assert (done.returncode, done.stderr) == (0, f"eagleray: of no effect here: {told}\n")


@pytest.mark.parametrize(("options", "ip"), [(("--node-ip-address", "127.0.0.2"), "127.0.0.2"), ((), "127.0.0.1")])
def test_lines_of_workers_say_by_which_address_their_node_is_known(machine, options, ip):
    address, _ = machine.head(*options)
    out, _ = machine.run(SPEAKER, address)
    assert re.search(rf"^\(speak pid=\d+, ip={re.escape(ip)}\) hello$", out, re.M), out


def test_lines_of_workers_of_a_node_that_is_alone_say_this_machine(machine):
    out, _ = machine.run(SPEAKER, "local")
    assert re.search(r"^\(speak pid=\d+, ip=127\.0\.0\.1\) hello$", out, re.M), out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_in_the_foreground_leaves_in_order(machine, leaks, wait_until, number):
    address, _ = machine.head()
    command = [sys.executable, "-m", "eagleray", "start", "--address", address, "--num-cpus", "1", "--block"]
    node = subprocess.Popen(command, env=machine.environ(), stdout=subprocess.PIPE, text=True)
    assert re.match(rf"Node started \(pid {node.pid}\) at ", node.stdout.readline())
    assert "Ctrl-C ends it" in node.stdout.readline()
    assert set(machine.nodes()) == {1, 2}
    everyone = below(leaks, [node.pid])
    os.kill(node.pid, number)
    assert node.wait(20) == 0
    node.stdout.close()
    leaks.check(everyone)
    wait_until(lambda: set(machine.nodes()) == {1})
    assert re.search(r"^Gone \(1\):\n  node 2 at 127\.0\.0\.1:\d+ \(.*\): it was stopped$", machine.ok("status"), re.M)


def test_a_node_whose_head_stops_ends_and_says_why(machine, elsewhere, leaks):
    address, file = machine.head()
    elsewhere.join(address, "--token-file", file)
    (pid,) = elsewhere.pids()
    machine.ok("stop")
    leaks.check([pid])
    assert "the node has left its cluster: " in read_all(elsewhere.folder)


def test_stop_kills_what_does_not_end_in_time(machine, leaks):
    address, _ = machine.head()
    machine.join(address)
    everyone = below(leaks, machine.pids())
    for pid in machine.pids():
        os.kill(pid, signal.SIGSTOP)
    assert machine.ok("stop", "--grace-period", "0.1").count("Node killed") == 2
    leaks.check(everyone)
    # What the killed ones have left is gone with the next start.
    machine.head()
    assert len(list(machine.folder.glob("secrets_*"))) == 1
    assert len(list(machine.folder.glob("nodes/*"))) == 1
    assert "Node killed" in machine.ok("stop", "--force")


def test_status_shows_what_waits_and_what_for(machine, wait_until):
    machine.head()
    waiting = machine.start(
        """
        ray.init("auto")
        @ray.remote(num_cpus=7)
        def never():
            pass
        print("asked", flush=True)
        ray.get([never.remote() for _ in range(3)])
        """
    )
    waiting.hear_until("asked")
    wait_until(lambda: re.search(r"^Demand:\n  \d+ x CPU 7$", machine.ok("status"), re.M))
