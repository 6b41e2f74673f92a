"""What a policy's server and its clients say to each other: JSON, arrays with their type and shape beside the bytes.

Nothing that arrives is ever run or unpickled: whoever reaches the port can send numbers, and no more.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

#: A message that is longer is refused before it is read.
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
#: Dictionaries and lists inside of each other.
_DEPTH_MAX = 16
#: Booleans, whole numbers, floats.
_ARRAY_KINDS = "biuf"


class WireError(ValueError):
    """A message that is none."""


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    return json.dumps({key: _encoded(value) for key, value in message.items()}).encode()


def unpack(data: bytes) -> dict[str, Any]:
    """The message that bytes are."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the message is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise WireError("the message must be an object")
    return {key: _decoded(value, 0) for key, value in message.items()}


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _ARRAY_KINDS:
            raise WireError(f"arrays of {value.dtype} cannot be sent: numbers only")
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(one) for one in value]}
    if isinstance(value, dict):
        return {"map": [[_encoded(key), _encoded(one)] for key, one in value.items()]}
    raise WireError(
        f"{type(value).__name__} cannot be sent: numbers, texts, arrays, and lists and dictionaries of them"
    )


def _decoded(value: Any, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise WireError(f"the message is nested more than {_DEPTH_MAX} times")
    if isinstance(value, list):
        return [_decoded(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise WireError("an object of the message is neither an array nor a tuple nor a map")
    ((kind, inner),) = value.items()
    try:
        if kind == "array":
            return _array(*inner)
        if kind == "tuple":
            return tuple(_decoded(one, depth + 1) for one in inner)
        if kind == "map":
            return {_decoded(key, depth + 1): _decoded(one, depth + 1) for key, one in inner}
    except (TypeError, ValueError) as error:
        raise WireError(f"a {kind} of the message is none: {error}") from None
    raise WireError(f"there is nothing called {kind!r} in messages")


def _array(kind: str, shape: list[Any], data: str) -> Any:
    dtype = np.dtype(kind)
    if dtype.kind not in _ARRAY_KINDS or dtype.itemsize > 8:
        raise ValueError(f"no array may be of {kind!r}")
    content = base64.b64decode(data, validate=True)
    if any(not isinstance(size, int) or size < 0 for size in shape) or len(content) != dtype.itemsize * math.prod(
        shape
    ):
        raise ValueError(f"{len(content)} bytes are not of the shape {shape}")
    return np.frombuffer(content, dtype).reshape(shape).copy()
