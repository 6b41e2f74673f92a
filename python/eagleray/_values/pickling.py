"""Pickle, protocol 5, with large buffers apart. Functions, classes of `__main__` and lambdas go by value, through cloudpickle."""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle

from eagleray import _native


class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """CloudPickler that knows the serializers which the user registered."""

    def reducer_override(self, obj: Any) -> Any:
        """Prefer what the user registered."""
        if _CUSTOM:
            own = registered(obj)
            if own is not None:
                return own
        return super().reducer_override(obj)


_CUSTOM: dict[type, tuple[Any, Any]] = {}


def registered(obj: Any) -> tuple[Any, ...] | None:
    """Say how to rebuild an object for whose class the user registered functions; None if there are none."""
    custom = _CUSTOM.get(type(obj))
    return None if custom is None else (_load_custom, (custom[1], custom[0](obj)))


def has_registered() -> bool:
    """Say whether the user registered functions for any class."""
    return bool(_CUSTOM)


def _load_custom(deserializer: Any, data: Any) -> Any:
    return deserializer(data)


def register_serializer(cls: type, *, serializer: Any, deserializer: Any) -> None:
    """Use these two functions for objects of exactly this class, in this process."""
    _CUSTOM[cls] = (serializer, deserializer)
    _choose_for_arrays()


def deregister_serializer(cls: type) -> None:
    """Forget the functions for this class, if there are any."""
    _CUSTOM.pop(cls, None)
    _choose_for_arrays()


def _choose_for_arrays() -> None:
    """Arrays are written without pickle, unless the user has a way of their own for them."""
    _native.pickle_arrays(any((cls.__module__, cls.__qualname__) == ("numpy", "ndarray") for cls in _CUSTOM))


def dumps(obj: Any) -> tuple[bytes, list[Any]]:
    """Pickle an object; returns the pickle and its out-of-band buffers."""
    buffers: list[Any] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        try:
            buffers.append(buffer.raw())
        except BufferError:
            return True
        return False

    out = io.BytesIO()
    Pickler(out, protocol=5, buffer_callback=keep).dump(obj)
    return out.getvalue(), buffers


def loads(data: bytes, buffers: list[Any]) -> Any:
    """Load a pickle whose buffers lie elsewhere."""
    return pickle.loads(data, buffers=buffers)


class _BodyPickler(Pickler):
    """Pickler for bodies: a handle that one captures keeps its actor alive as long as the session."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _native.ActorCore):
            return obj._reduce(is_counted=True)
        return super().reducer_override(obj)


def dumps_function(obj: Any) -> bytes:
    """Pickle a function's or class's body by value where it must be."""
    out = io.BytesIO()
    _BodyPickler(out, protocol=5).dump(obj)
    return out.getvalue()
