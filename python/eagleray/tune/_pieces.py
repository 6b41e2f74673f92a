"""A folder on its way to another machine: read as pieces of bounded size, written as they come.

A piece is a list of steps, of which none needs what has not come yet: so neither side ever holds more than one piece in memory.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: What a step counts beside the bytes that it carries.
_STEP_BYTES = 256

#: Steps: ("folder", path, mode), ("link", path, target), ("file", path, mode) or ("append", path, mode), and ("bytes", data) of that file.
Piece = list[tuple[Any, ...]]


def pack(folder: str, most: int, *, skipped: Collection[str] = (), appended: Collection[str] = ()) -> Iterator[Piece]:
    """Give what is in a folder in pieces of at most so many bytes; at least one, also of an empty folder.

    What is `skipped`, by its name in the folder itself, stays; what is `appended` is written behind what is there.
    """
    piece: Piece = []
    size = 0
    for step in _steps(folder, most, skipped, appended):
        weight = _STEP_BYTES + (len(step[1]) if step[0] == "bytes" else 0)
        if piece and size + weight > most + _STEP_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(step)
        size += weight
    yield piece


def _steps(folder: str, most: int, skipped: Collection[str], appended: Collection[str]) -> Iterator[tuple[Any, ...]]:
    for where, folders, files in os.walk(folder):
        inner = os.path.relpath(where, folder)
        if inner == ".":
            folders[:] = [name for name in folders if name not in skipped]
            files = [name for name in files if name not in skipped]
        for name in sorted(folders + files):
            path = os.path.join(where, name)
            short = os.path.normpath(os.path.join(inner, name))
            if os.path.islink(path):
                yield ("link", short, os.readlink(path))
            elif name in folders:
                yield ("folder", short, os.stat(path).st_mode & 0o777)
            elif os.path.isfile(path):
                yield from _file("append" if short in appended else "file", path, short, most)


def _file(what: str, path: str, short: str, most: int) -> Iterator[tuple[Any, ...]]:
    with open(path, "rb") as file:
        yield (what, short, os.fstat(file.fileno()).st_mode & 0o777)
        while data := file.read(most):
            yield ("bytes", data)


class Unpacking:
    """Writes pieces into a folder, over what is there under the same names."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file: Any = None

    def take(self, piece: Piece) -> None:
        """Write the next piece."""
        for what, *said in piece:
            if what == "bytes":
                self._file.write(said[0])
                continue
            self.close()
            path = self._folder / said[0]
            if what == "folder":
                path.mkdir(exist_ok=True)
                # Its owner has to get in as long as more comes.
                path.chmod(said[1] | 0o700)
            elif what == "link":
                path.unlink(missing_ok=True)
                path.symlink_to(said[1])
            else:
                if what == "file":
                    # What is there may be a link, or closed to writers.
                    path.unlink(missing_ok=True)
                self._file = path.open("ab" if what == "append" else "wb")
                path.chmod(said[1])

    def close(self) -> None:
        """Nothing more comes of the file that is being written."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


class Arriving:
    """A folder that comes in pieces and is there whole or not at all."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        from eagleray.tune._checkpoints import part_of

        self.target = Path(target)
        self._part = part_of(self.target)
        shutil.rmtree(self._part, ignore_errors=True)
        self._unpacking = Unpacking(self._part)
        #: Why a piece could not be written; the others are of no use without it.
        self._error: OSError | None = None

    def take(self, piece: Piece) -> None:
        """Write the next piece."""
        self._check()
        try:
            self._unpacking.take(piece)
        except OSError as error:
            self._error = error
            raise

    def _check(self) -> None:
        if self._error is not None:
            raise OSError(f"a part of {self.target} could not be written: {self._error}") from self._error

    def finish(self) -> None:
        """All of it has come. What is there under its name is of a run that was cut short, and goes."""
        from eagleray.tune._checkpoints import put_in_place

        self._check()
        self._unpacking.close()
        put_in_place(self._part, self.target)

    def drop(self) -> None:
        """The rest does not come."""
        self._unpacking.close()
        shutil.rmtree(self._part, ignore_errors=True)
