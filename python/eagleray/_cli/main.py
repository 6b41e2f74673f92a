"""The `eagleray` command."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

_DESCRIPTION = "Run Python functions, actors and data on all cores of this machine, and of others."
_STATE = "`status -v` shows processes, actors and what waits, `memory` lists objects"
_CLUSTER = "nothing here gets machines: call `eagleray start --address HOST:PORT` on each that is to join, by ssh, srun or a manifest"
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
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        sys.stderr.write(f"eagleray: {error}\n")
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    from eagleray._cli import rllib, start, status, stop, tokens, tune
    from eagleray._common.version import VERSION

    parser = argparse.ArgumentParser(prog="eagleray", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"eagleray {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    start.add_parser(commands)
    stop.add_parser(commands)
    status.add_parser(commands)
    tokens.add_parser(commands)

    memory = commands.add_parser(
        "memory",
        help="list live objects: size, place, owner, who holds them",
        description="List the objects of this user's daemon, or else of the node that the newest program hosts, the largest first; in a "
        "cluster those of all its nodes, node by node. "
        "Where refs were made is recorded by programs that run "
        "with EAGLERAY_record_ref_creation_sites=1.",
    )
    memory.add_argument("--audit", action="store_true", help="say what is still held; exit status 1 if anything is")
    memory.add_argument("--limit", type=int, default=100, help="objects to list of each node (100)")
    memory.add_argument("--json", action="store_true", help="as JSON")
    status.add_address(memory)
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


def _memory(options: Any) -> int:
    from eagleray._cli import memory_report, status
    from eagleray._node import finding

    inventory = finding.ask(status.find_node(options), "memory")
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
