"""How a node gets into a cluster: the head founds one, others join it, and a driver's own node joins as a guest."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from eagleray import _native
from eagleray._common.settings import from_env
from eagleray._node import addresses, facts, hosting
from eagleray._node.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: How long the head may take to let a node in, and then to make it known to the others.
JOIN_SECONDS_MAX = 15.0
#: How long somebody may take to take a call that is only to show whether somebody does.
_CALL_SECONDS_MAX = 5.0
_PORT_TAKEN = (errno.EADDRINUSE, errno.EACCES)


class Where(NamedTuple):
    """Where a node is to listen, as its user has said it; what is None was not said."""

    #: Where others reach it.
    ip: str | None = None
    #: Where it listens, if that is another one.
    bind: str | None = None
    port: int | None = None
    #: For people.
    name: str | None = None


@dataclass
class Membership:
    """What a node is told of its cluster. The native side reads these names, down to `is_guest`."""

    belonging: _native.Belonging
    listen: tuple[str, int] | None
    advertised: str | None
    name: str
    #: By which others know it.
    ip: str
    is_guest: bool = False
    labels: list[tuple[str, str]] = field(default_factory=list)
    token_file: str | None = None

    @property
    def is_head(self) -> bool:
        """Tell whether it leads the cluster."""
        return self.belonging.head is None


def found(folder: str, where: Where) -> Membership:
    """Found a cluster whose secrets lie in this folder. Loopback unless an address is given."""
    port = where.port
    if port is None:
        port = int(from_env("GCS_SERVER_PORT") or addresses.DEFAULT_PORT)
    ip, listen = _place(where, where.ip or "127.0.0.1", port)
    belonging = _native.found_cluster(folder)
    return _membership(belonging, where, ip, listen, token_file=os.path.join(folder, "token"))


def join(head: Address, token: str, where: Where, goes_on: Callable[[], bool] | None = None) -> Membership:
    """Get into the cluster whose head listens there. Others then reach this node where it has reached the head from.

    `goes_on` says whether to wait on as long as nobody answers there, and takes the time until the next call; without it nothing is waited for.
    """
    if where.ip is not None or where.bind is not None:
        # What is wrong with these is said before the head hears of anybody.
        _place(where, where.ip or "127.0.0.1", where.port or 0)
    if goes_on is not None:
        _await_answer(head, goes_on)
    belonging = _let_in(head, token)
    ip, listen = _place(where, where.ip or belonging.own_ip or "127.0.0.1", where.port or 0)
    return _membership(belonging, where, ip, listen)


def join_as_guest(head: Address, token: str) -> Membership:
    """Get in as a driver's own node, which has nothing to offer and listens nowhere: it dials, so that it may stand behind a firewall."""
    belonging = _let_in(head, token)
    return _membership(belonging, Where(), belonging.own_ip or "127.0.0.1", None, is_guest=True)


def facts_of(node: Any, member: Membership, session_dir: Path, *, is_unlisted: bool = False) -> facts.Facts:
    """Say what is known of a node that this process hosts."""
    address = node.address()
    bound = None
    if address and member.listen is not None and member.listen[0] != member.ip:
        bound = str(Address(member.listen[0], addresses.parse(address).port))
    return facts.Facts(
        address=address,
        head=member.belonging.head or address,
        ip=member.ip,
        bound=bound,
        cluster=member.belonging.cluster,
        is_head=member.is_head,
        node_id=node.id(),
        pid=os.getpid(),
        began=facts.began(os.getpid()),
        socket=str(session_dir / hosting.SOCKET_NAME),
        session_dir=str(session_dir),
        token_file=member.token_file,
        is_unlisted=is_unlisted,
    )


def _let_in(head: Address, token: str) -> _native.Belonging:
    return _native.join_cluster(head.host, head.port, token, JOIN_SECONDS_MAX)


def _await_answer(head: Address, goes_on: Callable[[], bool]) -> None:
    """Wait until somebody takes calls there, or no longer. Who that is, and what is wrong, shows when the node joins."""
    while True:
        try:
            socket.create_connection((head.host, head.port), timeout=_CALL_SECONDS_MAX).close()
        except (OSError, UnicodeError):
            if goes_on():
                continue
        return


def _membership(
    belonging: _native.Belonging, where: Where, ip: str, listen: tuple[str, int] | None, **more: Any
) -> Membership:
    advertised = None if listen is None or listen[0] == ip else ip
    return Membership(belonging, listen, advertised, where.name or socket.gethostname(), ip, **more)


def _place(where: Where, host: str, port: int) -> tuple[str, tuple[str, int]]:
    """Decide by which address the node is known, and where it listens; refuse what cannot be."""
    ip = addresses.resolve(host)[0]
    if addresses.is_any(ip):
        raise ValueError(
            f"others cannot reach {ip}, which stands for all addresses of a machine: say --node-ip-address with one that they can, "
            f"and --bind-address {ip} to listen at all of them"
        )
    bind = ip if where.bind is None else where.bind
    if not addresses.is_ip(bind):
        raise ValueError(f"--bind-address takes an IP address, such as 0.0.0.0, and not {bind!r}")
    _refuse_taken(bind, port)
    return ip, (bind, port)


def _refuse_taken(ip: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the node does it: what a former one has left of its connections is no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((ip, port))
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise ValueError(
                f"this machine has no address {ip}: where others reach it by another machine's address, say --bind-address 0.0.0.0 too"
            ) from None
        if error.errno not in _PORT_TAKEN:
            raise ConnectionError(f"nobody can listen at {Address(ip, port)}: {error.strerror}") from None
        why = "is taken" if error.errno == errno.EADDRINUSE else "is for root only"
        raise ConnectionError(
            f"port {port} at {ip} {why}: give another one by --port; --port 0 takes any that is free. If a head of yours has it, "
            "`eagleray status` shows it and `eagleray stop` ends it"
        ) from None
