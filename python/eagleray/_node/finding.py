"""Finds nodes of this user that run already on this machine: daemons, and those that other programs host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from eagleray import _native
from eagleray._common.settings import from_env
from eagleray._node import addresses, facts, hosting
from eagleray._node.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eagleray._node.facts import Facts

#: How long a node may take to say that it is there. One whose process is stopped never does.
ANSWER_SECONDS = 10.0


class Found(NamedTuple):
    """A node that answers."""

    path: str
    #: Of the process that runs it.
    pid: int
    #: It is part of a program, and ends with it.
    is_of_program: bool


def find_node(address: str | None) -> Found | Address | None:
    """Decide which running node to join; None: host one here. An address: of a cluster that has no node of this user here."""
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
        status = ask(address, "own status")
        is_daemon = any(address == known.socket for known in facts.listed(hosting.base_dir()))
        return Found(address, status["pid"], not is_daemon)
    if addresses.is_one(address):
        wanted = addresses.parse(address)
        return first_that_answers(of_cluster(wanted)) or wanted
    raise ConnectionError(
        f"Cannot connect to {address!r}: give the HOST:PORT of a cluster's head, 'auto' for a node on this machine, 'local' for one of "
        f"your own, or the address that the init() of another program has returned."
    )


def daemons() -> list[Facts]:
    """List this user's daemons, also those that do not answer: heads first, the newest of them first."""
    return list(facts.listed(hosting.base_dir()))


def daemon() -> Found | None:
    """Find this user's daemon, if programs may find it by themselves."""
    return first_that_answers([known for known in daemons() if not known.is_unlisted])


def first_that_answers(known: Iterable[Facts]) -> Found | None:
    """Find the first of these nodes that answers."""
    return next(filter(None, map(_look_at_daemon, known)), None)


def of_cluster(wanted: Address) -> list[Facts]:
    """List this user's daemons of the cluster that is to be found there: first the one with that very address, then the head."""
    known = daemons()
    if not known:
        return []
    named = {str(Address(ip, wanted.port)) for ip in addresses.resolve(wanted.host)}
    exact = [each for each in known if each.address in named or _listens_at(each, wanted)]
    return exact + [each for each in known if each.head in named and each not in exact]


def _listens_at(known: Facts, wanted: Address) -> bool:
    """Tell whether a node that listens at other addresses than its own is meant."""
    if known.bound is None:
        return False
    bound = addresses.parse(known.bound)
    ips = addresses.resolve(wanted.host)
    return bound.port == wanted.port and (
        bound.host in ips or (addresses.is_any(bound.host) and any(map(addresses.is_here, ips)))
    )


def ask(path: str, what: str) -> dict[str, Any]:
    """Ask the node at this path for its `status`, its `own status` without the cluster's, or its `memory`."""
    answer = _native.ask_node(path, what, ANSWER_SECONDS)
    if answer is None:
        raise ConnectionError(f"no node answers at {path}: it hung up")
    return answer


def newest_program() -> Found | None:
    """Find the node of the program that was the last to start one and still answers."""
    return next(filter(None, map(_look_at, _sockets_of_programs())), None)


def _sockets_of_programs() -> Iterator[Path]:
    """List the sockets in the folders of sessions, the newest first. Programs that were killed may have left theirs."""
    made = []
    others = {known.socket for known in daemons()}
    for path in hosting.base_dir().glob(f"session_*/{hosting.SOCKET_NAME}"):
        if str(path) in others:
            continue
        try:
            made.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue  # its session has just ended
    return (path for _, path in sorted(made, reverse=True))


def _look_at(path: Path) -> Found | None:
    try:
        status = ask(str(path), "own status")
    except ConnectionError:
        return None
    return Found(str(path), status["pid"], is_of_program=True)


def _look_at_daemon(known: Facts) -> Found | None:
    found = _look_at(Path(known.socket)) if os.path.exists(known.socket) else None
    return None if found is None else found._replace(is_of_program=False)
