"""Copying, pickling and printing of users' exceptions, whatever their classes do.

An exception class may ask for arguments, forbid attribute writes or keep its state in C structures. So nothing here
calls a user's constructor or `__setattr__`: instances are made and filled below the class, through the interpreter's
own descriptors.
"""

from __future__ import annotations

import copyreg
import io
import types
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from collections.abc import Callable, Iterator
    from typing import Any

TRACEBACK_LINE = "Traceback (most recent call last):"

#: A longer text loses its middle: an error that travels through thousands of tasks grows at each of them.
TEXT_CHARS_MAX = 100_000

#: `args` as the interpreter stores it, below any property of that name in a user's class.
ARGS: Any = vars(BaseException)["args"]

_PACKAGE_FOLDER = __file__.removesuffix("_errors/causes.py")
_HEAP_TYPE = 1 << 9


def blank(cls: type[BaseException], like: dict[str, Any]) -> BaseException:
    """An instance of `cls` on which no constructor of a user has run. `like` is `members()` of the model."""
    base: Any = cls
    while base.__flags__ & _HEAP_TYPE:
        base = base.__base__
    # A group's exceptions can be given at birth only.
    args = (like["message"], like["exceptions"]) if issubclass(cls, BaseExceptionGroup) else ()
    made: BaseException = base.__new__(cls, *args)
    return made


def members(exception: BaseException) -> dict[str, Any]:
    """State that is not in `__dict__`: slots, and fields of built-in classes such as `OSError.errno`."""
    found: dict[str, Any] = {}
    for name, descriptor in _descriptors(type(exception)):
        try:
            value = descriptor.__get__(exception)
        except (AttributeError, TypeError):
            continue
        if value is not None:
            found.setdefault(name, value)
    return found


def fill(exception: BaseException, args: tuple[Any, ...], like: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Gives an exception its state: `args`, what `members()` read, and its `__dict__`."""
    ARGS.__set__(exception, args)
    for name, descriptor in _descriptors(type(exception)):
        if name in like:
            try:
                descriptor.__set__(exception, like[name])
            except (AttributeError, TypeError):
                continue  # read-only: set at birth, or computed
    attributes_of(exception).update(attributes)


def attributes_of(exception: BaseException) -> dict[str, Any]:
    """The exception's `__dict__`, whatever its class says about attribute access."""
    found: dict[str, Any] = object.__getattribute__(exception, "__dict__")
    return found


def dump(exception: BaseException) -> bytes:
    """Pickles an exception so that it loads with its state as it is now.

    Python's own way is to call the class with `args` again, which fails for a class that wants other arguments, and
    wraps the text twice for a class that builds its text from them.
    """
    buffer = io.BytesIO()
    _pickler()(buffer, protocol=5).dump(exception)
    return buffer.getvalue()


def try_dump(exception: BaseException) -> None:
    """Raises what `dump` would. Nobody gets these bytes, so refs in them are not counted as having left."""
    _pickler(is_trial=True)(io.BytesIO(), protocol=5).dump(exception)


def load(data: bytes) -> BaseException:
    """The exception that `dump` wrote. May raise anything that the user's class raises."""
    import pickle

    loaded = pickle.loads(data)
    if not isinstance(loaded, BaseException):
        text = f"not an exception but {type(loaded).__qualname__}"
        raise TypeError(text)
    return loaded


def report(exception: BaseException, header: str) -> str:
    """The traceback as Python prints it, without eagleray's own frames, with `header` for Python's first line."""
    import traceback

    try:
        told = traceback.TracebackException(type(exception), exception, exception.__traceback__, compact=True)
    except Exception as error:
        # The user's class refuses to be looked at.
        frames = "".join(traceback.format_tb(exception.__traceback__))
        return shorten(f"{header}\n{frames}{type(exception).__qualname__}: <cannot be printed: {type(error).__name__}>")
    _hide_own_frames(told)
    chunks = [f"{header}\n" if chunk == f"{TRACEBACK_LINE}\n" else as_ray(chunk) for chunk in told.format()]
    text = "".join(chunks).rstrip("\n")
    return shorten(text if text.startswith(header) else f"{header}\n{text}")


def as_ray(line: str) -> str:
    """The last line of a traceback, with the name under which programs know our exceptions."""
    return line.removeprefix("eagle") if line.startswith("eagleray.exceptions.") else line


def shorten(text: str) -> str:
    """The text, without its middle if it is too long. The end stays: the root cause is there."""
    if len(text) <= TEXT_CHARS_MAX:
        return text
    head, tail = TEXT_CHARS_MAX // 4, TEXT_CHARS_MAX // 2
    return f"{text[:head]}\n... {len(text) - head - tail} characters left out ...\n{text[-tail:]}"


def _descriptors(cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__:
        if base is BaseException:
            return  # its `args` is set apart; traceback and context stay behind
        for name, value in vars(base).items():
            is_state = isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType)
            if is_state and not name.startswith("__"):
                yield name, value


def _hide_own_frames(told: traceback.TracebackException) -> None:
    waiting = [told]
    while waiting:
        one = waiting.pop()
        users = [frame for frame in one.stack if not frame.filename.startswith(_PACKAGE_FOLDER)]
        # With no user in sight a library in a folder of ours is what went wrong, so its frames are told.
        one.stack[:] = users or [frame for frame in one.stack if _is_library(frame.filename[len(_PACKAGE_FOLDER) :])]
        waiting += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other]


def _is_library(path: str) -> bool:
    """Whether a file of the package is a library's, such as Tune's. Rooms of the core begin with an underscore."""
    return "/" in path and not path.startswith("_")


@cache
def _pickler(*, is_trial: bool = False) -> Callable[..., Any]:
    import cloudpickle

    from eagleray._native import ObjectRef
    from eagleray._values.pickling import registered

    class CausePickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if is_trial and isinstance(obj, ObjectRef):
                return bytes, ()
            own = registered(obj)
            if own is not None:
                return own
            if isinstance(obj, BaseException) and _only_constructor_is_custom(type(obj)):
                like = members(obj)
                group = {name: like[name] for name in ("message", "exceptions") if isinstance(obj, BaseExceptionGroup)}
                state = (ARGS.__get__(obj), like, attributes_of(obj))
                return blank, (type(obj), group), state, None, None, _fill_loaded
            return super().reducer_override(obj)

    return CausePickler


def _fill_loaded(exception: BaseException, state: tuple[Any, ...]) -> None:
    fill(exception, *state)


def _only_constructor_is_custom(cls: type[BaseException]) -> bool:
    """Whether the class leaves pickling to Python, which would then call a constructor that it wrote itself."""
    if cls in copyreg.dispatch_table:
        return False
    pickles_as_builtin = all(_is_builtin(cls, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__"))
    return pickles_as_builtin and not (_is_builtin(cls, "__init__") and _is_builtin(cls, "__new__"))


def _is_builtin(cls: type, name: str) -> bool:
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return not owner.__flags__ & _HEAP_TYPE
