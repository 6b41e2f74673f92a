"""Finds nodes of this user that run already: the daemon, and those that other programs host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from eagleray import _native
from eagleray._common.settings import from_env
from eagleray._node import hosting

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long a node may take to say that it is there. One whose process is stopped never does.
ANSWER_SECONDS = 10.0


class Found(NamedTuple):
    """A node that answers."""

    path: str
    #: Of the process that runs it.
    pid: int
    #: It is part of a program, and ends with it.
    is_of_program: bool


def find_node(address: str | None) -> Found | None:
    """Decide which running node to join; None: host one here."""
    address = address or from_env("ADDRESS")
    if address == "local":
        return None
    if address is None:
        return daemon()
    if address == "auto":
        found = daemon() or newest_program()
        if found is None:
            raise ConnectionError(
                "Could not find any running Ray instance. Start one with `eagleray start --head`, or call init() without an address."
            )
        return found
    if os.path.isabs(address):
        status = ask(address, "status")
        return Found(address, status["pid"], Path(address) != hosting.socket_path())
    raise ConnectionError(
        f"Cannot connect to {address!r}: give 'auto' for a node on this machine, 'local' for one of your own, or the address that the "
        f"init() of another program has returned: a socket's path."
    )


def daemon() -> Found | None:
    """Find this user's daemon."""
    return _look_at(hosting.socket_path(), is_of_program=False)


def ask(path: str, what: str) -> dict[str, Any]:
    """Ask the node at this path for its `status` or `memory`."""
    answer = _native.ask_node(path, what, ANSWER_SECONDS)
    if answer is None:
        raise ConnectionError(f"no node answers at {path}: it hung up")
    return answer


def newest_program() -> Found | None:
    """Find the node of the program that was the last to start one and still answers."""
    looked_at = (_look_at(path, is_of_program=True) for path in _sockets_of_programs())
    return next(filter(None, looked_at), None)


def _sockets_of_programs() -> Iterator[Path]:
    """List the sockets in the folders of sessions, the newest first. Programs that were killed may have left theirs."""
    made = []
    for path in hosting.base_dir().glob(f"session_*/{hosting.SOCKET_NAME}"):
        try:
            made.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue  # its session has just ended
    return (path for _, path in sorted(made, reverse=True))


def _look_at(path: Path, *, is_of_program: bool) -> Found | None:
    if not path.exists():
        return None
    try:
        status = ask(str(path), "status")
    except ConnectionError:
        return None
    return Found(str(path), status["pid"], is_of_program)
