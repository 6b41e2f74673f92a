"""The `eagleray` command."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from eagleray._common import amounts

_DESCRIPTION = "Run Python functions, actors and data on all cores of this machine."
_STATE = "`status -v` shows processes, actors and what waits, `memory` lists objects"
_CLUSTER = "there is one machine, whose node `start` and `stop` run"
#: Commands of Ray's that are missing: what to do instead.
_NOT_HERE = {
    "job": "start the program itself, with `eagleray run SCRIPT` if it says `import ray`",
    "submit": "start the program itself, with `eagleray run SCRIPT` if it says `import ray`",
    "list": _STATE,
    "get": _STATE,
    "summary": _STATE,
    "logs": "what workers print is in the folder `logs` of the session, which `status` names",
    "timeline": "measure inside of tasks, or profile workers, for example with py-spy",
    "stack": "py-spy shows the stacks of workers, which `status -v` lists",
    "dashboard": _STATE,
    "up": _CLUSTER,
    "down": _CLUSTER,
    "attach": _CLUSTER,
    "exec": _CLUSTER,
}


def main(arguments: list[str] | None = None) -> None:
    """Run one command."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in _NOT_HERE:
        sys.stderr.write(f"eagleray: there is no `{given[0]}` in this version; {_NOT_HERE[given[0]]}\n")
        sys.exit(2)
    parser = _parser()
    options, unknown = parser.parse_known_args(given)
    if unknown:
        # Commands that say who they are show their own usage.
        getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if not hasattr(options, "run"):
        parser.print_help()
        sys.exit(2)
    try:
        sys.exit(options.run(options) or 0)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ConnectionError, ValueError, PermissionError, TimeoutError) as error:
        sys.stderr.write(f"eagleray: {error}\n")
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    from eagleray._cli import rllib, tune
    from eagleray._common.version import VERSION

    parser = argparse.ArgumentParser(prog="eagleray", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"eagleray {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    start = commands.add_parser(
        "start", help="start a node as a daemon", description="Start a node as a daemon of this user."
    )
    start.add_argument("--head", action="store_true", help="the first node (the only kind there is on one machine)")
    start.add_argument("--num-cpus", type=float, help="cores to offer; counted if not given")
    start.add_argument("--num-gpus", type=float, help="GPUs to offer; counted if not given")
    start.add_argument("--resources", type=json.loads, default={}, help="more resources as JSON: '{\"licence\": 2}'")
    start.add_argument("--labels", default="", help="labels of the node: zone=north,gpu=none")
    start.add_argument("--object-store-memory", type=int, help="bytes of the object store")
    start.add_argument("--block", action="store_true", help="stay in the foreground")
    start.set_defaults(run=_start)

    stop = commands.add_parser(
        "stop",
        help="stop this user's daemon and everything it started",
        description="Stop this user's daemon and everything it started. The output of workers that ran until "
        "then, and of the last ten that crashed, stays to be read in the logs folder of its session, the daemon's own in daemon.log beside "
        "that. The next start removes the folders of all dead sessions but the newest ten.",
    )
    stop.set_defaults(run=_stop)

    status = commands.add_parser(
        "status",
        help="show a node: resources, processes, actors",
        description="Show this user's daemon, or else the node that the newest program hosts: resources, processes, actors.",
    )
    status.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also memory of each process's own, who waits for what, and since when",
    )
    status.add_argument("--json", action="store_true", help="as JSON")
    status.add_argument(
        "--watch", action="store_true", help="show what waits, and again whenever that changes, until Ctrl-C"
    )
    _add_address(status)
    status.set_defaults(run=_status)

    memory = commands.add_parser(
        "memory",
        help="list live objects: size, place, owner, who holds them",
        description="List the objects of this user's daemon, or else of the node that the newest program hosts, the largest first. "
        "Where refs were made is recorded by programs that run "
        "with EAGLERAY_record_ref_creation_sites=1.",
    )
    memory.add_argument("--audit", action="store_true", help="say what is still held; exit status 1 if anything is")
    memory.add_argument("--limit", type=int, default=100, help="objects to list (100)")
    memory.add_argument("--json", action="store_true", help="as JSON")
    _add_address(memory)
    memory.set_defaults(run=_memory)

    run = commands.add_parser(
        "run",
        help="run a script written for Ray",
        description="Run a script whose `import ray` means eagleray, as python itself would: a file, a folder with a __main__.py, or -.",
    )
    kind = run.add_mutually_exclusive_group()
    kind.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module or package")
    kind.add_argument("-c", dest="is_command", action="store_true", help="SCRIPT is the program itself")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    run.set_defaults(run=_run)

    tune.add_parser(commands)
    rllib.add_parser(commands)
    return parser


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", help="another node of yours: what its program's init() returned")


def _start(options: Any) -> int:
    from eagleray._calls import labels
    from eagleray._node import finding, hosting

    if not options.head:
        raise ValueError("say --head: joining another machine's node is not available yet")
    if finding.daemon() is not None:
        raise ValueError("a node of yours is running already; see `eagleray status`, or end it with `eagleray stop`")
    wants = {
        "num_cpus": options.num_cpus,
        "num_gpus": options.num_gpus,
        "resources": options.resources,
        "object_store_memory": options.object_store_memory,
        "labels": labels.read(options.labels),
    }
    hosting.node_resources(hosting.Wants(**wants))
    if options.block:
        from eagleray._node import daemon

        daemon.main([json.dumps(wants)])
        return 0
    import subprocess

    log = hosting.base_dir() / "daemon.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "eagleray._node.daemon", json.dumps(wants)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + 30
    while (found := finding.daemon()) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            sys.stderr.write(f"eagleray: the node did not start:\n{log.read_text()}")
            return 1
        time.sleep(0.02)
    total = finding.ask(found.path, "status")["total"]
    print(f"Node started (pid {found.pid}): {_resources(total)}")
    print("Programs on this machine join it with init(address='auto'); `eagleray stop` ends it.")
    return 0


def _stop(_options: Any) -> int:
    from eagleray import _native
    from eagleray._node import finding, hosting, old_sessions

    found = finding.daemon()
    if found is None:
        print("No daemon of yours is running.")
        return 0
    _native.ask_node(found.path, "stop", finding.ANSWER_SECONDS)
    pid = found.pid
    deadline = time.monotonic() + 15
    while old_sessions.is_alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the node (pid {pid}) does not end; kill it by hand")
        time.sleep(0.02)
    print(f"Node stopped (pid {pid}).")
    if (session := old_sessions.of_node(hosting.base_dir(), pid)) is not None:
        print(f"What is left of its workers' output is in {session}/logs, its own in {hosting.base_dir()}/daemon.log.")
    return 0


def _resources(parts: dict[str, int]) -> str:
    shown = []
    for name, amount in sorted(parts.items()):
        if name.startswith("node:"):
            continue
        shown.append(
            f"{name} {amount / 2**30:.1f} GiB" if name == "memory" else f"{name} {amounts.shown(name, amount):g}"
        )
    return ", ".join(shown)


def _find_node(options: Any) -> str:
    from eagleray._node import finding

    found = finding.find_node(options.address) or finding.newest_program()
    if found is None:
        raise ConnectionError("no node of yours is running; start one with `eagleray start --head`")
    return found.path


def _ask_node(options: Any, what: str) -> dict[str, Any]:
    from eagleray._node import finding

    return finding.ask(_find_node(options), what)


def _status(options: Any) -> int:
    if options.watch:
        from eagleray._cli import waits

        return waits.watch(_find_node(options), as_json=options.json)
    status = _ask_node(options, "status")
    if options.json:
        print(json.dumps(status, indent=2))
        return 0
    free = status["free"]
    print(f"Node (pid {status['pid']})")
    print("Resources (used / total):")
    for name, total in sorted(status["total"].items()):
        if name.startswith("node:"):
            continue
        used = total - free.get(name, 0)
        scale, unit = (2**30, " GiB") if name == "memory" else (amounts.PARTS, "")
        print(f"  {name:<22} {used / scale:g} / {total / scale:.4g}{unit}")
    print(f"  {'object store':<22} {status['store_used'] / 2**20:.1f} / {status['store_capacity'] / 2**20:.1f} MiB")
    print(f"Processes ({len(status['processes'])}):")
    for pid, role, waiting in status["processes"]:
        own = f"{status['own_bytes'].get(pid, 0) / 1e6:>9.1f} MB  " if options.verbose else ""
        print(f"  {pid:>8}  {own}{role}")
        if options.verbose:
            for who, what, waited_ms in waiting:
                print(f"            {who} waits for {what}, {waited_ms / 1000:.1f} s")
    if status["actors"]:
        print(f"Actors ({len(status['actors'])}):")
        for actor_id, class_name, name, state, pid in status["actors"]:
            print(f"  {actor_id}  {class_name:<20} {name:<16} {state:<10} {pid or '-'}")
    if options.verbose:
        print(f"Waiting for resources ({len(status['waiting'])}):")
        for who, what, waited_ms in status["waiting"]:
            print(f"  {who}: {what}, {waited_ms / 1000:.1f} s")
    return 0


def _memory(options: Any) -> int:
    from eagleray._cli import memory_report

    inventory = _ask_node(options, "memory")
    if options.json:
        print(json.dumps(inventory, indent=2))
        return 0
    if not options.audit:
        print(memory_report.table(inventory, limit=options.limit))
        return 0
    found = memory_report.findings(inventory)
    print(
        "\n".join(found) if found else "Nothing is held: no objects, pins, tasks or files, and all resources are free."
    )
    return 1 if found else 0


def _run(options: Any) -> int:
    from eagleray._alias import install

    run = install.run_module if options.is_module else install.run_command if options.is_command else install.run_script
    run(options.script, options.arguments)
    return 0
