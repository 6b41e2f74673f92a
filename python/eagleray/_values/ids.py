"""Identifiers as users see them: bytes of a fixed length."""

from __future__ import annotations

import enum
import os
from typing import ClassVar, Self


class BaseID:
    """An id: immutable bytes with a name for their kind."""

    LENGTH: ClassVar[int] = 0
    __slots__ = ("_bytes",)

    def __init__(self, raw: bytes) -> None:
        """Take exactly LENGTH bytes."""
        if not isinstance(raw, bytes):
            raise TypeError(f"Unsupported type: {type(raw)}")
        if len(raw) != self.LENGTH:
            raise ValueError(f"ID string needs to have length {self.LENGTH}, got {len(raw)}")
        self._bytes = raw

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Make the id from its hex form."""
        return cls(bytes.fromhex(text))

    @classmethod
    def from_binary(cls, raw: bytes) -> Self:
        """Make the id from its bytes."""
        return cls(raw)

    @classmethod
    def from_random(cls) -> Self:
        """Make an id that nothing has."""
        return cls(os.urandom(cls.LENGTH))

    @classmethod
    def nil(cls) -> Self:
        """Make the id that names nothing."""
        return cls(b"\xff" * cls.LENGTH)

    @classmethod
    def size(cls) -> int:
        """Say how many bytes it has."""
        return cls.LENGTH

    def is_nil(self) -> bool:
        """Tell whether it names nothing."""
        return self._bytes == b"\xff" * self.LENGTH

    def binary(self) -> bytes:
        """Give its bytes."""
        return self._bytes

    def hex(self) -> str:
        """Give its hex form."""
        return self._bytes.hex()

    def __eq__(self, other: object) -> bool:
        """Compare kind and bytes."""
        return type(other) is type(self) and other._bytes == self._bytes

    def __hash__(self) -> int:
        """Hash the bytes."""
        return hash(self._bytes)

    def __repr__(self) -> str:
        """Show kind and hex."""
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        """Pickle as kind and bytes."""
        return type(self), (self._bytes,)


class JobID(BaseID):
    """One driver's program."""

    LENGTH = 4

    @classmethod
    def from_int(cls, number: int) -> Self:
        """Make the id of the n-th job."""
        return cls(number.to_bytes(4, "little"))

    def int(self) -> int:
        """Give the number of the job."""
        return int.from_bytes(self._bytes, "little")


class NodeID(BaseID):
    """One node."""

    LENGTH = 28


class WorkerID(BaseID):
    """One process."""

    LENGTH = 28


class ActorID(BaseID):
    """One actor."""

    LENGTH = 16


class TaskID(BaseID):
    """One task."""

    LENGTH = 24


class PlacementGroupID(BaseID):
    """One placement group."""

    LENGTH = 18


class UniqueID(BaseID):
    """Anything else."""

    LENGTH = 28


class FunctionID(UniqueID):
    """One remote function."""


class ActorClassID(UniqueID):
    """One class of actors."""


class Language(enum.IntEnum):
    """What a function is written in. Here that is always Python."""

    PYTHON = 0
    JAVA = 1
    CPP = 2
