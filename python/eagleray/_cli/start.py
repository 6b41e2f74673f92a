"""`eagleray start`: a node as a daemon, the head of a cluster or one that joins it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from eagleray._cli import values
from eagleray._common import amounts

if TYPE_CHECKING:
    from eagleray._node.daemon import Orders
    from eagleray._node.facts import Facts

#: Options of Ray's that concern parts which a node here does not have. The number says whether a value comes with it.
_WITHOUT_EFFECT = {
    "--autoscaling-config": 1,
    "--cgroup-path": 1,
    "--dashboard-agent-grpc-port": 1,
    "--dashboard-agent-listen-port": 1,
    "--dashboard-grpc-port": 1,
    "--dashboard-host": 1,
    "--dashboard-port": 1,
    "--disable-usage-stats": 0,
    "--enable-object-reconstruction": 0,
    "--enable-resource-isolation": 0,
    "--gcs-server-port": 1,
    "--huge-pages": 0,
    "--include-dashboard": 1,
    "--include-log-monitor": 1,
    "--log-color": 1,
    "--log-style": 1,
    "--max-worker-port": 1,
    "--metrics-export-port": 1,
    "--min-worker-port": 1,
    "--no-monitor": 0,
    "--no-redirect-output": 0,
    "--node-manager-port": 1,
    "--object-manager-port": 1,
    "--plasma-directory": 1,
    "--plasma-store-socket-name": 1,
    "--proxy-server-url": 1,
    "--ray-client-server-port": 1,
    "--ray-debugger-external": 0,
    "--raylet-socket-name": 1,
    "--redis-max-memory": 1,
    "--redis-password": 1,
    "--redis-shard-ports": 1,
    "--redis-username": 1,
    "--runtime-env-agent-port": 1,
    "--system-reserved-cpu": 1,
    "--system-reserved-memory": 1,
    "--tracing-startup-hook": 1,
    "--verbose": 0,
    "--worker-port-list": 1,
    "-v": 0,
}


def add_parser(commands: Any) -> None:
    """Add the command."""
    start = commands.add_parser(
        "start",
        help="start a node as a daemon: a cluster's head, or one that joins it",
        description="Start a node as a daemon of this user: --head founds a cluster, --address joins one. Nodes talk over TLS and let in who "
        "knows the cluster's token, a secret in a file of the head. Only this machine reaches them unless an address is given.",
    )
    start.add_argument("--head", action="store_true", help="found a cluster, and lead it")
    start.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="join the cluster whose head listens there; auto: your own on this machine",
    )
    start.add_argument(
        "--token-file",
        metavar="FILE",
        help="the token of the cluster to join; - reads it from standard input. Else EAGLERAY_TOKEN or EAGLERAY_TOKEN_FILE, else "
        "the file of your own head on this machine",
    )
    start.add_argument(
        "--secrets",
        metavar="FOLDER",
        help="of a head: secrets that `eagleray token new` has made, instead of new ones. They are read once, and not changed",
    )
    start.add_argument(
        "--wait",
        type=values.seconds,
        default=0.0,
        metavar="SECONDS",
        help="of a node that joins: go on for so long while no head answers (0)",
    )
    start.add_argument(
        "--port", type=values.port, help="where to listen; 0: any that is free (6379 for a head, any for others)"
    )
    start.add_argument(
        "--node-ip-address",
        metavar="IP",
        help="by which others reach this node, and where it listens (loopback for a head; for others the one from which they reach it)",
    )
    start.add_argument(
        "--bind-address", metavar="IP", help="where to listen, if that is another one: 0.0.0.0, :: or behind a NAT"
    )
    start.add_argument("--node-name", type=values.node_name, metavar="NAME", help="for people (the machine's)")
    start.add_argument("--num-cpus", type=float, help="cores to offer; counted if not given")
    start.add_argument("--num-gpus", type=float, help="GPUs to offer; counted if not given")
    start.add_argument(
        "--resources", type=values.resources, default={}, help="more resources as JSON: '{\"licence\": 2}'"
    )
    start.add_argument("--labels", default="", help="labels of the node: zone=north,gpu=none")
    start.add_argument(
        "--labels-file", metavar="FILE", help="more of them, one in each line, as JSON or as name: value"
    )
    start.add_argument("--object-store-memory", type=int, metavar="BYTES", help="of the object store")
    start.add_argument("--memory", type=int, metavar="BYTES", help="of memory to offer; counted if not given")
    start.add_argument(
        "--object-spilling-directory", metavar="DIR", help="where values go that the object store has no room for"
    )
    start.add_argument("--temp-dir", metavar="DIR", help="where the folder of its session is made")
    start.add_argument(
        "--system-config",
        type=values.settings,
        default={},
        metavar="JSON",
        help="settings, as _system_config of init()",
    )
    start.add_argument(
        "--block", action="store_true", help="stay in the foreground; Ctrl-C and SIGTERM end the node in order"
    )
    start.add_argument(
        "--ready-file",
        metavar="FILE",
        help="for programs that start nodes: written when the node is ready, as JSON. Others do not find that node by themselves",
    )
    for name, has_value in _WITHOUT_EFFECT.items():
        start.add_argument(
            name, action=_Ignored, dest="ignored", nargs=None if has_value else 0, default=[], help=argparse.SUPPRESS
        )
    start.set_defaults(run=_start)


class _Ignored(argparse.Action):
    """Notes an option that has no effect."""

    def __call__(self, _parser: Any, namespace: Any, _values: Any, option_string: str | None = None) -> None:
        namespace.ignored = [*namespace.ignored, option_string]


def _start(options: Any) -> int:
    from eagleray._node import hosting, tokens

    if options.ignored:
        sys.stderr.write(f"eagleray: of no effect here: {', '.join(dict.fromkeys(options.ignored))}\n")
    if options.head and options.address:
        raise ValueError("say --head to found a cluster, or --address to join one, and not both")
    if not options.head and not options.address:
        raise ValueError("say --head to found a cluster, or --address HOST:PORT to join one")
    if options.head and options.token_file:
        raise ValueError("a head makes its token itself: --token-file is for nodes that join it")
    if options.head and options.wait:
        raise ValueError("a head waits for nobody: --wait is for nodes that join it")
    if options.secrets and not options.head:
        raise ValueError("--secrets is for the head: a node that joins takes the token, by --token-file")
    orders = _orders(options)
    hosting.node_resources(hosting.Wants(**orders.wants))
    token = None if options.head else _token(options, orders)
    # From here on no process that this one starts gets to see it.
    os.environ.pop(tokens.VARIABLE, None)
    if options.block:
        from eagleray._node import daemon

        return daemon.run(orders, token, lambda about: _show(about, is_here=True), is_apart=False)
    return _start_apart(orders, token)


def _orders(options: Any) -> Orders:
    from eagleray._calls import labels
    from eagleray._node.daemon import Orders
    from eagleray._node.membership import Where

    if options.temp_dir is not None and not os.path.isabs(options.temp_dir):
        raise ValueError("temp_dir must be an absolute path")
    given = labels.read(_lines(options.labels_file)) if options.labels_file else {}
    wants = {
        "num_cpus": options.num_cpus,
        "num_gpus": options.num_gpus,
        "resources": options.resources,
        "object_store_memory": options.object_store_memory,
        "memory": options.memory,
        "labels": given | labels.read(options.labels),
        "temp_dir": options.temp_dir,
        "object_spilling_directory": options.object_spilling_directory,
        "system_config": options.system_config,
    }
    where = Where(options.node_ip_address, options.bind_address, options.port, options.node_name)
    return Orders(
        wants,
        where._asdict(),
        options.address,
        ready_file=options.ready_file and os.path.abspath(options.ready_file),
        secrets=options.secrets and os.path.abspath(options.secrets),
        wait=options.wait,
    )


def _lines(path: str) -> str:
    """Read a file of labels as the command takes them: JSON, or one in each line."""
    try:
        with open(path) as file:
            text = file.read()
    except OSError as error:
        raise ValueError(f"the file of labels cannot be read: {path}: {error.strerror}") from None
    if text.lstrip().startswith("{"):
        return text
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return ",".join("=".join(part.strip().strip("'\"") for part in line.split(":", 1)) for line in lines if line)


def _token(options: Any, orders: Orders) -> str:
    """Find the token, and what `auto` means."""
    from eagleray._node import addresses, finding, tokens

    if options.address == "auto":
        heads = [known for known in finding.daemons() if known.is_head and not known.is_unlisted]
        if not heads or heads[0].address is None:
            raise ConnectionError("no head of yours runs on this machine: say --address HOST:PORT")
        orders.address = heads[0].address
    head, beside = addresses.parse(orders.address or ""), None
    # A name that stands for nothing yet is waited for, and named by whoever joins.
    with contextlib.suppress(ConnectionError):
        beside = next((each.token_file for each in finding.of_cluster(head) if each.token_file), None)
    return tokens.find(options.token_file, beside)


def _start_apart(orders: Orders, token: str | None) -> int:
    """Start the node in a process of its own, and wait until it is ready."""
    from eagleray._node import facts

    read_fd, write_fd = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "eagleray._node.daemon", json.dumps(asdict(orders)), str(write_fd)],
        stdin=subprocess.PIPE,
        # Until it has a folder, what it says comes to this terminal.
        start_new_session=True,
        pass_fds=(write_fd,),
        cwd="/",
    )
    os.close(write_fd)
    assert process.stdin is not None
    process.stdin.write(f"{token or ''}\n".encode())
    process.stdin.close()
    with os.fdopen(read_fd) as answers:
        try:
            told = answers.read()
        except KeyboardInterrupt:
            process.terminate()
            raise
    answer: dict[str, Any] = json.loads(told) if told else {"error": _last_words(process)}
    if "error" in answer:
        process.wait()
        sys.stderr.write(f"eagleray: the node did not start: {answer['error']}\n")
        return 1
    _show(facts.Facts(**answer["ready"]), is_here=False)
    return 0


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """Say what is known of a node that has ended without a word."""
    from eagleray._node import hosting, old_sessions
    from eagleray._node.daemon import LOG

    text = f"its process ended with {process.wait()}"
    session = old_sessions.of_node(hosting.base_dir(), process.pid)
    return text if session is None else f"{text}; its output is in {session / LOG}"


def _show(about: Facts, *, is_here: bool) -> None:
    """Tell how the node is used. Where the token lies, never what it is."""
    from eagleray._node import addresses, finding

    total = finding.ask(about.socket, "own status")["total"]
    print(f"Node started (pid {about.pid}) at {about.address}: {resources(total)}")
    end = "Ctrl-C" if is_here else "`eagleray stop`"
    if not about.is_head:
        print(f"It belongs to the cluster of {about.head}; {end} ends it.", flush=True)
        return
    print(f"Programs on this machine join it with init(address='auto'); {end} ends it.")
    print(f"More nodes join it on this machine with: eagleray start --address {about.address}")
    if addresses.is_loopback(about.ip) and about.bound is None:
        outward = addresses.outward()
        if not addresses.is_loopback(outward):
            print(f"Other machines do not reach it; they would with: eagleray start --head --node-ip-address {outward}")
    else:
        print(
            f"On another machine: copy the file of the token there, then: eagleray start --address {about.address} --token-file FILE"
        )
    print(f"The token is in {about.token_file}; whoever knows it can join, and run what they like as you.", flush=True)


def resources(parts: dict[str, int]) -> str:
    """Show what a node has, in one line."""
    shown = []
    for name, amount in sorted(parts.items()):
        if name.startswith("node:"):
            continue
        shown.append(
            f"{name} {amount / 2**30:.1f} GiB" if name == "memory" else f"{name} {amounts.shown(name, amount):g}"
        )
    return ", ".join(shown)
