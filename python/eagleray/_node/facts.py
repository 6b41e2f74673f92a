"""What is known of a node of this user: in a file of its session's folder, where all its processes find it.

Sessions may lie anywhere; links to their folders, in one folder of this user, list those that run as daemons.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from eagleray._node import old_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FILE = "node.json"
_LINKS = "nodes"


class Facts(NamedTuple):
    """A node, and where things of it are. Nothing here is secret."""

    #: Where other nodes find it, as host:port; None: it only dials.
    address: str | None
    #: Where the head of its cluster is; its own address if it is that.
    head: str | None
    #: By which it is known to others.
    ip: str
    #: Where it listens, if that is not where others find it.
    bound: str | None
    cluster: str | None
    is_head: bool
    node_id: str
    pid: int
    #: When its process began, in ticks since the machine did: who has the pid later began later.
    began: int
    socket: str
    session_dir: str
    #: Where the secret is by which others join; only the head has one.
    token_file: str | None
    #: Programs find it by its address only.
    is_unlisted: bool

    def is_process(self) -> bool:
        """Tell whether its process runs, here."""
        return self.began != 0 and began(self.pid) == self.began


def began(pid: int) -> int:
    """Say when a process began; 0 if it does not run."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as about:
            fields = about.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == b"Z" else int(fields[19])


def write(facts: Facts, path: str) -> None:
    """Write them into a file, whole or not at all."""
    beside = f"{path}.new"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(facts._asdict(), file)
    os.replace(beside, path)


def keep(facts: Facts) -> None:
    """Leave them to the processes of the node."""
    write(facts, os.path.join(facts.session_dir, _FILE))


def enlist(facts: Facts, base: Path) -> None:
    """Let programs of this user find the node."""
    links = base / _LINKS
    links.mkdir(mode=0o700, exist_ok=True)
    (links / os.path.basename(facts.session_dir)).symlink_to(facts.session_dir)


def strike(facts: Facts, base: Path) -> None:
    """Let nobody find it any more; of its session's folder the logs are left."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(facts.session_dir, _FILE))
    (base / _LINKS / os.path.basename(facts.session_dir)).unlink(missing_ok=True)


def listed(base: Path) -> Iterator[Facts]:
    """List the nodes that run as daemons, and those that were killed: heads first, the newest of them first."""
    found = [facts for link in _links(base) if (facts := of_session(str(link))) is not None]
    # Names begin with the time of the start.
    found.sort(key=lambda facts: (facts.is_head, os.path.basename(facts.session_dir)), reverse=True)
    return iter(found)


def tidy(base: Path) -> None:
    """Forget nodes of which nothing is left."""
    for link in _links(base):
        if not (link / _FILE).exists() or old_sessions.is_dead(link.resolve()):
            with contextlib.suppress(OSError):
                link.unlink()


def _links(base: Path) -> list[Path]:
    try:
        return list((base / _LINKS).iterdir())
    except OSError:
        return []


def of_session(session_dir: str) -> Facts | None:
    """Read the facts of the node whose session has this folder; None if it is of no cluster."""
    try:
        with open(os.path.join(session_dir, _FILE)) as file:
            return Facts(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None  # of another version, perhaps


def head_of(session_dir: str) -> str | None:
    """Say where the head of the cluster is that the node of this session belongs to; None if it is alone."""
    about = of_session(session_dir)
    return None if about is None else about.head


@functools.lru_cache(maxsize=4)
def _ip_of(session_dir: str) -> str:
    facts = of_session(session_dir)
    if facts is None:
        raise LookupError
    return facts.ip


def ip_of(session_dir: str) -> str:
    """Say by which address the node of this session is known."""
    try:
        return _ip_of(session_dir)
    except LookupError:
        return "127.0.0.1"  # it is alone, or has only just begun
