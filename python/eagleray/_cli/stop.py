"""`eagleray stop`: ends this user's nodes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray._node.facts import Facts

#: How long nodes may take to end by themselves, and how long those that are killed.
_GRACE_SECONDS = 16.0
_KILL_SECONDS_MAX = 5.0
_POLL_SECONDS = 0.005


def add_parser(commands: Any) -> None:
    """Add the command."""
    stop = commands.add_parser(
        "stop",
        help="stop this user's daemons and everything they started",
        description="Stop all nodes that this user has started on this machine, and everything they started. They leave their clusters in "
        "order; one that does not end in time is killed. The output of workers that ran until then, and of the last ten that crashed, "
        "stays to be read in the logs folder of its session, the daemon's own in daemon.log among them. The next start removes the "
        "folders of all dead sessions but the newest ten.",
    )
    stop.add_argument("-f", "--force", action="store_true", help="kill them at once")
    stop.add_argument(
        "-g",
        "--grace-period",
        type=float,
        default=_GRACE_SECONDS,
        metavar="SECONDS",
        help="how long they may take (16)",
    )
    for name in ("-v", "--verbose"):
        stop.add_argument(name, action="store_true", dest="verbose", help="list the folders of their logs")
    stop.set_defaults(run=_stop)


def _stop(options: Any) -> int:
    from eagleray._node import finding

    # The head last: the others take their leave of it.
    known = [each for each in reversed(finding.daemons()) if _is_there(each)]
    if not known:
        print("No daemon of yours is running.")
        return 0
    until = time.monotonic() + (0.0 if options.force else max(0.0, options.grace_period))
    if not options.force:
        for each in known:
            _ask(each)
    status = 0
    for each in known:
        status |= _await(each, until)
    return status


def _is_there(known: Facts) -> bool:
    """Tell whether it runs: here, or in a container whose processes do not show here but that answers."""
    from eagleray._node import finding

    if known.is_process():
        return True
    try:
        return os.path.exists(known.socket) and bool(finding.ask(known.socket, "own status"))
    except ConnectionError:
        return False


def _ask(known: Facts) -> None:
    from eagleray import _native
    from eagleray._node import finding

    if known.is_process():
        with contextlib.suppress(ProcessLookupError):
            os.kill(known.pid, signal.SIGTERM)
    else:
        with contextlib.suppress(ConnectionError):
            _native.ask_node(known.socket, "stop", finding.ANSWER_SECONDS)


def _await(known: Facts, until: float) -> int:
    """Wait until the node is gone; kill it when its time is over."""
    from eagleray._node.daemon import LOG

    word = "stopped"
    while _is_there(known):
        now = time.monotonic()
        if now > until + _KILL_SECONDS_MAX:
            sys.stderr.write(f"eagleray: the node (pid {known.pid}) does not end; kill it by hand\n")
            return 1
        if now > until and word == "stopped" and known.is_process():
            with contextlib.suppress(ProcessLookupError):
                os.kill(known.pid, signal.SIGKILL)
            word = "killed"
        time.sleep(_POLL_SECONDS)
    print(f"Node {word} (pid {known.pid}).")
    logs = os.path.join(known.session_dir, "logs")
    if os.path.isdir(logs):
        log = os.path.join(known.session_dir, LOG)
        own = f", its own in {log}" if os.path.exists(log) else ""
        print(f"What is left of its workers' output is in {logs}{own}.")
    return 0
