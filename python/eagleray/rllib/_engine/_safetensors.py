"""Named arrays as a safetensors file, and back. Plain numpy: the files are small and written here anyway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The format's name of a type -> numpy's. Types that numpy has not are kept as their bits.
TYPES: dict[str, str] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {np.dtype(numpy): name for name, numpy in TYPES.items() if name != "BF16"}


def pack(arrays: Mapping[str, Any], about: str | None = None, bits: frozenset[str] = frozenset()) -> bytes:
    """Writes arrays of any of the types above, with a text about them. `bits` names those that are bfloat16's bits."""
    header: dict[str, Any] = {} if about is None else {"__metadata__": {"eagleray": about}}
    parts: list[bytes] = []
    at = 0
    for name, array in arrays.items():
        whole = np.asarray(array)
        kind = "BF16" if name in bits else _NAMES.get(whole.dtype.newbyteorder("="))
        if kind is None:
            raise TypeError(f"{name} is of the type {whole.dtype}, which such a file cannot hold")
        data = whole.tobytes()
        header[name] = {"dtype": kind, "shape": list(whole.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    # Numbers begin at a multiple of eight.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def unpack(data: bytes) -> tuple[dict[str, Any], str | None, frozenset[str]]:
    """The arrays, the text about them, and which of them are bfloat16's bits."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    about = header.pop("__metadata__", {}).get("eagleray")
    arrays: dict[str, Any] = {}
    for name, said in header.items():
        begin, end = said["data_offsets"]
        flat = np.frombuffer(data[8 + size + begin : 8 + size + end], TYPES[said["dtype"]])
        arrays[name] = flat.reshape(said["shape"]).copy()
    return arrays, about, frozenset(name for name, said in header.items() if said["dtype"] == "BF16")
