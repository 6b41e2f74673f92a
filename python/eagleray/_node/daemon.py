"""A node as a daemon: the very same node that `init()` hosts, in a process of its own. Runs no user code and unpickles nothing."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from eagleray._node import hosting, old_sessions


def main(arguments: list[str]) -> None:
    """Host a node until somebody asks it to stop."""
    given: dict[str, Any] = json.loads(arguments[0])
    wants = hosting.Wants(**given)
    old_sessions.remove(hosting.base_dir())
    node = hosting.host_node(wants, listen=str(hosting.socket_path()), keep_session=True)
    is_over = False

    def stop(*_: Any) -> None:
        nonlocal is_over
        is_over = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while node.is_running() and not is_over:
        # Signals end the sleep; a stop asked for through the socket is seen within a second.
        time.sleep(1.0)
    problem = node.stop()
    if problem:
        sys.stderr.write(f"the node failed: {problem}\n")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
