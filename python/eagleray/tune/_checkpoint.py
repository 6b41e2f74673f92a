"""A checkpoint: a folder with what a trial needs to go on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Notes about a checkpoint, in its folder.
_METADATA_FILE = ".metadata.json"
#: What `from_dict` was given, in the folder that it makes.
_DICT_FILE = "dict_checkpoint.pkl"


class LocalFileSystem:
    """Where checkpoints lie: the files of this machine."""

    type_name = "local"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFileSystem)

    def __hash__(self) -> int:
        return hash(LocalFileSystem)

    def __repr__(self) -> str:
        return "LocalFileSystem()"


class Checkpoint:
    """A folder on this machine. It is passed around as its path; nothing is copied before somebody asks for it."""

    __slots__ = ("filesystem", "path")

    def __init__(self, path: str | os.PathLike[str], filesystem: LocalFileSystem | None = None) -> None:
        text = os.fspath(path)
        if "://" in text and not text.startswith("file://"):
            raise ValueError(f"checkpoints lie in folders of this machine; {text!r} is elsewhere")
        #: The folder.
        self.path = text.removeprefix("file://")
        self.filesystem = filesystem or LocalFileSystem()

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Give the checkpoint in this folder."""
        return cls(os.path.abspath(os.fspath(path).removeprefix("file://")))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checkpoint:
        """Give a checkpoint with this dictionary in it, in a new temporary folder, which is the caller's to remove."""
        if not isinstance(data, dict):
            raise ValueError(f"a checkpoint is made of a dictionary, got {type(data).__name__}")
        folder = tempfile.mkdtemp(prefix="eagleray-checkpoint-")
        Path(folder, _DICT_FILE).write_bytes(cloudpickle.dumps(data))
        return cls(folder)

    def to_dict(self) -> dict[str, Any]:
        """Give the dictionary that `from_dict` was given."""
        file = Path(self.path, _DICT_FILE)
        if not file.exists():
            raise ValueError(f"{self.path} was not made by Checkpoint.from_dict(); read its files with as_directory()")
        data: dict[str, Any] = cloudpickle.loads(file.read_bytes())
        return data

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the checkpoint's files into this folder, or a new temporary one, and return where that is."""
        target = os.path.abspath(tempfile.mkdtemp(prefix="eagleray-checkpoint-") if path is None else path)
        if os.path.realpath(target) != os.path.realpath(self.path):
            shutil.copytree(self.path, target, symlinks=True, dirs_exist_ok=True)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give the folder to read from; write nothing there."""
        if not os.path.isdir(self.path):
            raise FileNotFoundError(f"the checkpoint {self.path} is no longer there")
        yield self.path

    def get_metadata(self) -> dict[str, Any]:
        """Give the notes about the checkpoint; none are an empty dictionary."""
        try:
            notes: dict[str, Any] = json.loads(Path(self.path, _METADATA_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return notes

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the notes about the checkpoint: anything that JSON knows."""
        temporary = Path(self.path, _METADATA_FILE + ".part")
        temporary.write_text(json.dumps(metadata), encoding="utf-8")
        os.replace(temporary, Path(self.path, _METADATA_FILE))

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Add to the notes about the checkpoint; the same key is replaced."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self.path == other.path and self.filesystem == other.filesystem

    def __hash__(self) -> int:
        return hash(self.path)

    def __fspath__(self) -> str:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.path,))

    def __repr__(self) -> str:
        return f"Checkpoint(filesystem=local, path={self.path})"
