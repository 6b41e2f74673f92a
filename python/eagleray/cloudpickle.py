"""Pickles of functions and classes by value, as eagleray makes them: cloudpickle, with the serializers that were registered."""

from __future__ import annotations

import io
import pickle
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

from cloudpickle import list_registry_pickle_by_value, register_pickle_by_value, unregister_pickle_by_value

from eagleray._values.pickling import Pickler as CloudPickler

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CloudPickler",
    "Pickler",
    "PicklingError",
    "dump",
    "dumps",
    "dumps_debug",
    "list_registry_pickle_by_value",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]

Pickler = CloudPickler
load = pickle.load
loads = pickle.loads


def dump(obj: Any, file: Any, protocol: int | None = None, buffer_callback: Callable[..., Any] | None = None) -> None:
    """Pickle an object into a file."""
    CloudPickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)


def dumps(obj: Any, protocol: int | None = None, buffer_callback: Callable[..., Any] | None = None) -> bytes:
    """Pickle an object."""
    file = io.BytesIO()
    dump(obj, file, protocol, buffer_callback)
    return file.getvalue()


def dumps_debug(obj: Any, *args: Any, **kwargs: Any) -> bytes:
    """Pickle an object; if it cannot be pickled, say which part of it is to blame."""
    try:
        return dumps(obj, *args, **kwargs)
    except (TypeError, PicklingError) as error:
        from eagleray._errors.serialization_trace import short_repr, trace

        text = f"Could not serialize {short_repr(obj)}:\n{trace(obj)}"
        raise type(error)(text) from error
