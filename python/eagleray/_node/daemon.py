"""A node as a daemon: the very same node that `init()` hosts, in a process of its own. Runs no user code and unpickles nothing."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eagleray._node import addresses, facts, hosting, membership, old_sessions, tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from eagleray._node.facts import Facts

#: Where the daemon's own output goes, in its session's folder.
LOG = os.path.join("logs", "daemon.log")
#: How long it may take until a node that has ended by itself is seen.
_LOOK_SECONDS = 1.0
#: After so long a head that did not answer is called again.
_AGAIN_SECONDS = 0.5


@dataclass
class Orders:
    """What a daemon is started for."""

    #: Fields of `hosting.Wants`.
    wants: dict[str, Any]
    #: Fields of `membership.Where`.
    where: dict[str, Any] = field(default_factory=dict)
    #: The head of the cluster that it joins; None: it founds one.
    address: str | None = None
    #: A file for whoever has started it, who then is the only one to find it by anything but its address.
    ready_file: str | None = None
    #: Of a head: the folder with the secrets of the cluster; None: it makes new ones.
    secrets: str | None = None
    #: For how many seconds it waits for a head that does not answer.
    wait: float = 0.0


class _Signals:
    """Notes that this process is asked to end, and wakes it from its sleep."""

    def __init__(self) -> None:
        self.is_over = False
        self._read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: Any) -> None:
        self.is_over = True

    def sleep(self, seconds: float) -> None:
        """Sleep until a signal comes, and no longer than so many seconds."""
        select.select([self._read_fd], [], [], seconds)


def run(orders: Orders, token: str | None, tell: Callable[[Facts], None], *, is_apart: bool) -> int:
    """Host a node until somebody asks it to stop; `tell` hears once that it is ready. Gives the exit status.

    `is_apart`: its output goes into its session's folder.
    """
    signals = _Signals()
    wants = hosting.Wants(**orders.wants)
    session_dir = hosting.new_session_dir(wants)
    secrets = old_sessions.secrets_of(session_dir)
    facts.tidy(hosting.base_dir())
    old_sessions.remove(session_dir.parent)
    session_dir.mkdir(mode=0o700, parents=True)
    about = None
    try:
        where = membership.Where(**orders.where)
        if orders.address is None:
            if orders.secrets is not None:
                tokens.copy_secrets(orders.secrets, secrets)
            member = membership.found(str(secrets), where)
        else:
            goes_on = _patience(orders.wait, signals) if orders.wait else None
            member = membership.join(addresses.parse(orders.address), token or "", where, goes_on)
        if is_apart:
            _write_to(session_dir / LOG)
        node = hosting.host_node(wants, session_dir=session_dir, membership=member, keep_session=True)
        try:
            node.await_member(membership.JOIN_SECONDS_MAX)
            about = membership.facts_of(node, member, session_dir, is_unlisted=orders.ready_file is not None)
            facts.keep(about)
            facts.enlist(about, hosting.base_dir())
            if orders.ready_file is not None:
                facts.write(about, orders.ready_file)
            tell(about)
            while node.is_running() and not signals.is_over and node.left_because() is None:
                signals.sleep(_LOOK_SECONDS)
        finally:
            why = None if signals.is_over else node.left_because()
            problem = node.stop()
    except BaseException:
        if about is None:
            shutil.rmtree(session_dir, ignore_errors=True)
        raise
    finally:
        if about is not None:
            facts.strike(about, hosting.base_dir())
        shutil.rmtree(secrets, ignore_errors=True)
    if why:
        sys.stderr.write(f"eagleray: the node has left its cluster: {why}\n")
    if problem:
        sys.stderr.write(f"eagleray: the node failed: {problem}\n")
    return 1 if why or problem else 0


def _patience(seconds: float, signals: _Signals) -> Callable[[], bool]:
    """Make what pauses a moment and tells whether to call the head again."""
    until = time.monotonic() + seconds

    def goes_on() -> bool:
        if signals.is_over or time.monotonic() >= until:
            return False
        signals.sleep(_AGAIN_SECONDS)
        return not signals.is_over

    return goes_on


def _write_to(log: Path) -> None:
    """Let all that this process prints go into a file."""
    log.parent.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(fd, number)
    os.close(fd)


def main(arguments: list[str]) -> None:
    """Host a node, apart from the process that started this one: it hears through a pipe when the node is ready, or why it is not.

    The token comes by standard input: everybody on the machine can read a process's arguments.
    """
    orders, fd = Orders(**json.loads(arguments[0])), int(arguments[1])
    token = sys.stdin.readline().strip() or None

    def answer(**told: Any) -> None:
        os.write(fd, json.dumps(told).encode())
        os.close(fd)

    def tell(about: Facts) -> None:
        answer(ready=about._asdict())

    # Workers must not hold it open.
    os.set_inheritable(fd, False)  # noqa: FBT003
    try:
        status = run(orders, token, tell, is_apart=True)
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        try:
            answer(error=str(error))
        except OSError:
            # It was ready, and is gone by something else.
            sys.stderr.write(f"eagleray: {error}\n")
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
