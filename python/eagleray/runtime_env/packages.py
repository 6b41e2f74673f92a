"""Packages of folders and modules on their way to workers: each is named by its content, and travels as the bodies of functions do.

What a job, task or actor works with stands among its environment variables, under names that no variable has. So processes that
find different packages are told apart as those are that find different variables, and what a task starts inherits them.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray.runtime_env import packing

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The fields of an environment that packages are made of.
FIELDS = ("working_dir", "py_modules")
#: Before a field's name, where it stands among variables.
MARK = "="
#: A message of this size holds up nobody for long.
PART_BYTES_MAX = 4 * 1024 * 1024
ID_BYTES = 16
#: As Ray writes a package that is on its way already.
URI = re.compile(r"gcs://_ray_pkg_([0-9a-f]{32})\.zip")
#: A file that was written this short a time ago may be written again without a newer time.
_TICK_NS = 100_000_000

_LOCK = threading.Lock()


class _Known:
    """What this process knows of its packages."""

    def __init__(self) -> None:
        #: Which session those below belong to.
        self.session: tuple[int, int] = (0, -1)
        self.sent: set[str] = set()
        #: The files that were last packed for a path, and the package's name.
        self.names: dict[tuple[Any, ...], tuple[list[packing.Entry], str]] = {}
        #: The bodies of the job's packages, until there is a session.
        self.waiting: dict[str, list[bytes]] = {}


_KNOWN = _Known()


def uri(name: str) -> str:
    """Write a package's name as programs may give it."""
    return f"gcs://_ray_pkg_{name}.zip"


def as_fields(named: Mapping[str, str]) -> dict[str, Any]:
    """Write packages, by field, as the environment that asks for them."""
    fields: dict[str, Any] = {}
    if "working_dir" in named:
        fields["working_dir"] = uri(named["working_dir"])
    if named.get("py_modules"):
        fields["py_modules"] = [uri(name) for name in named["py_modules"].split(",")]
    return fields


def of_job(env: Mapping[str, Any]) -> dict[str, str]:
    """Pack what a job asks for, and give what stands among its variables. It travels by `send_waiting`."""
    with _LOCK:
        # What an earlier session was sent is of no use to the next one.
        _KNOWN.__init__()  # type: ignore[misc]
        return _variables(env, _KNOWN.waiting)


def send_waiting() -> None:
    """Let the job's packages travel: there is a session now."""
    with _LOCK:
        _begin_session()
        _send(_KNOWN.waiting)
        _KNOWN.waiting = {}


def of_call(env: Mapping[str, Any]) -> dict[str, str]:
    """Pack what a task or actor asks for, let it travel, and give what stands among its variables."""
    with _LOCK:
        _begin_session()
        bodies: dict[str, list[bytes]] = {}
        variables = _variables(env, bodies)
        _send(bodies)
        return variables


def travelling(env: dict[str, Any]) -> dict[str, Any]:
    """Write an environment so that it means the same to a process that cannot reach this one's folders."""
    if not any(env.get(field) for field in FIELDS) or not _native.is_joined():
        return env
    named = {name.removeprefix(MARK): value for name, value in of_call(env).items()}
    return type(env)(**{**env, **as_fields(named)})


def _begin_session() -> None:
    from eagleray._driver.session import SESSION

    session = (os.getpid(), SESSION.number)
    if session != _KNOWN.session:
        _KNOWN.session, _KNOWN.sent, _KNOWN.names = session, set(), {}


def _send(bodies: Mapping[str, list[bytes]]) -> None:
    for name, parts in bodies.items():
        if name not in _KNOWN.sent:
            for part in parts:
                _native.export(part)
            _KNOWN.sent.add(name)


def _variables(env: Mapping[str, Any], bodies: dict[str, list[bytes]]) -> dict[str, str]:
    variables = {}
    excludes = tuple(env.get("excludes") or ())
    for field in FIELDS:
        given = env.get(field)
        paths = [given] if isinstance(given, str) else given
        if paths:
            variables[MARK + field] = ",".join(_name(path, excludes, field, bodies) for path in paths)
    return variables


def _name(path: str, excludes: tuple[str, ...], field: str, bodies: dict[str, list[bytes]]) -> str:
    """Name the package of a path. Its bodies are added, unless they have travelled already."""
    travelled = URI.fullmatch(path)
    if travelled is not None:
        return travelled[1]
    listed = packing.entries(path, excludes, field=field)
    key = (path, excludes, field)
    known = _KNOWN.names.get(key)
    if known is not None and known[0] == listed and known[1] in _KNOWN.sent:
        return known[1]
    began = time.time_ns()
    name, parts = cut(packing.packed(path, listed))
    bodies[name] = parts
    if all(entry.seen[0] < began - _TICK_NS for entry in listed):
        _KNOWN.names[key] = (listed, name)
    return name


def cut(content: bytes) -> tuple[str, list[bytes]]:
    """Cut a package into bodies; the last lists the others, and its id names the package."""
    parts = [content[at : at + PART_BYTES_MAX] for at in range(0, len(content), PART_BYTES_MAX)]
    ids = b"".join(_native.body_id(part) for part in parts)
    return _native.body_id(ids).hex(), [*parts, ids]
