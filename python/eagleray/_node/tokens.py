"""Where the token comes from that lets a node into a cluster, and that nobody else gets to see it.

It is read from a file, from stdin or from the environment; never from the arguments of a command, which everybody on the machine can read.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from eagleray import _native
from eagleray._common.settings import from_env

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Holds a token.
VARIABLE = "EAGLERAY_TOKEN"
#: More than a token's file has.
_LETTERS_MAX = 4096
#: What a head needs of a cluster that was made before it: its authority, and which tokens let others in. Names of `crates/node`.
_OF_HEAD = ("authority", "tokens")
#: More than one of these has.
_BYTES_MAX = 64 * 1024


def find(named: str | None, beside: str | None) -> str:
    """Find the token: `named` is a file or `-`, `beside` the file of a head of this user on this machine.

    What was said comes first, then the environment, then what lies beside. Raises ValueError if there is none.
    """
    if named == "-":
        return _checked(sys.stdin.readline(_LETTERS_MAX), "stdin")
    if named is not None:
        return _read(named)
    if text := os.environ.get(VARIABLE):
        return _checked(text, VARIABLE)
    if path := from_env("TOKEN_FILE"):
        return _read(path)
    if beside is not None:
        return _read(beside)
    raise ValueError(
        "a token is needed to get into that cluster: give its file by --token-file (- for stdin) or EAGLERAY_TOKEN_FILE, or its text by "
        f"{VARIABLE}. `eagleray start --head` says on its machine where the file is"
    )


def new_secrets(folder: str) -> str:
    """Make the secrets of a cluster that has no head yet; gives the file of its token."""
    if any(os.path.lexists(os.path.join(folder, name)) for name in _OF_HEAD):
        raise ValueError(f"the secrets of a cluster are in {folder} already: choose another folder")
    _native.found_cluster(folder)
    return os.path.join(folder, "token")


def copy_secrets(source: str, folder: Path) -> None:
    """Take what a head needs from where `eagleray token new` has put it: into a folder of this user alone, which ends with the head."""
    folder.mkdir(mode=0o700, parents=True)
    for name in _OF_HEAD:
        path = os.path.join(source, name)
        try:
            with open(path, "rb") as file:
                _warn_if_open(path, os.fstat(file.fileno()).st_mode)
                content = file.read(_BYTES_MAX)
        except OSError as error:
            raise ValueError(
                f"the secrets of the cluster cannot be read: {path}: {error.strerror}. `eagleray token new` makes such a folder"
            ) from None
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            copy.write(content)


def without(environ: Mapping[str, str]) -> dict[str, str]:
    """Give this environment without the token: workers run anybody's code."""
    return {name: value for name, value in environ.items() if name != VARIABLE}


def hidden(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Say what a process that inherits this environment must be given so that it has no token."""
    return [(VARIABLE, "")] if environ.get(VARIABLE) else []


def _read(path: str) -> str:
    try:
        with open(os.path.expanduser(path)) as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_LETTERS_MAX)
    except UnicodeDecodeError:
        raise ValueError(f"the file of the token, {path}, holds no text") from None
    except OSError as error:
        raise ValueError(f"the file of the token cannot be read: {path}: {error.strerror}") from None
    _warn_if_open(path, mode)
    return _checked(text, path)


def _warn_if_open(path: str, mode: int) -> None:
    if stat.S_ISREG(mode) and mode & 0o004:
        sys.stderr.write(f"eagleray: everybody on this machine can read the token in {path}: chmod 600 it\n")


def _checked(text: str, source: str) -> str:
    token = text.strip()
    if not token:
        raise ValueError(f"there is no token in {source}: it is empty")
    if len(token.split()) > 1 or not token.isascii():
        raise ValueError(f"what {source} holds is no token")
    return token
