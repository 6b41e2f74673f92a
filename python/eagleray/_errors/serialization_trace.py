"""Says which part of an object cannot be pickled: the closure variable, attribute or element, with the path to it.

"cannot pickle '_thread.lock' object" is of little use to somebody whose function uses an object that holds another that
holds a lock. So the object is taken apart, and what fails is taken apart again, down to what fails by itself.
"""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TextIO

    Dump = Callable[[object], object]

#: Pieces tried per object, and in all: each is pickled, and somebody waits for the error.
PIECES_MAX = 1_000
TRIES_MAX = 5_000

_REPR_CHARS_MAX = 1_000
_RULE = "=" * 80


class FailureTuple:
    """Something that cannot be pickled though all its parts can, or that was not taken apart any further.

    Attributes:
        obj: it.
        name: the variable, attribute or key that holds it.
        parent: what holds it.
        path: how to get to it from the object that was asked about.
        reason: why it cannot be pickled.
    """

    __slots__ = ("name", "obj", "parent", "path", "reason")

    def __init__(self, obj: Any, name: str, parent: Any, *, path: str = "", reason: str = "") -> None:
        self.obj = obj
        self.name = name
        self.parent = parent
        self.path = path or name
        self.reason = reason

    def __repr__(self) -> str:
        return f"FailTuple({self.name} [obj={short_repr(self.obj)}, parent={short_repr(self.parent)}])"


def inspect_serializability(
    base_obj: object, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Tells whether an object can be sent to a task or actor, and prints what in it cannot.

    Args:
        base_obj: what to look at.
        name: what to call it; its own name if it has one.
        depth: how many levels to go down.
        print_file: where to print; standard output if not given.

    Returns:
        Whether it can be sent, and the parts that cannot.
    """
    text, failures = _inspect(base_obj, name, depth, _dump)
    (print_file or sys.stdout).write(f"{text}\n")
    return not failures, failures


def trace(obj: object, name: str | None = None, depth: int = 6, dump: Dump | None = None) -> str:
    """The text of `inspect_serializability`, to stand in an error. `dump` pickles as the caller does."""
    return _inspect(obj, name, depth, dump or _dump)[0]


def serialization_error(what: str, obj: object, dump: Dump | None = None) -> TypeError:
    """The error for an object that cannot be sent.

    Args:
        what: names it, for example "the put value 7" or "the function module.f".
        obj: it, to be taken apart.
        dump: pickles as the caller does.
    """
    return TypeError(f"Could not serialize {what}:\n{trace(obj, dump=dump)}")


def argument_error(argument: object, callee: str, dump: Dump | None = None) -> TypeError:
    """The error for an argument of a remote call. `callee` is the function's module and qualified name."""
    return serialization_error(f"the argument {short_repr(argument)} for a task or actor {callee}", argument, dump)


def explained(what: str, whose: str, obj: object, error: BaseException) -> BaseException:
    """The error to raise for an argument, put value or return value that could not be pickled.

    What a user's own pickling code raised stays as it is, and so does what is not about pickling at all.
    """
    import pickle

    if not isinstance(error, TypeError | AttributeError | pickle.PicklingError):
        return error
    if what == "argument":
        made = argument_error(obj, whose)
    else:
        of_whom = f" of {whose}" if whose else ""
        made = serialization_error(f"the {what} {short_repr(obj)}{of_whom}", obj)
    made.__cause__ = error
    return made


def short_repr(obj: object) -> str:
    """The object's repr, if it has one that works and ends."""
    try:
        text = repr(obj)
    except Exception as error:
        return f"<{type(obj).__qualname__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= _REPR_CHARS_MAX else f"{text[:_REPR_CHARS_MAX]}..."


def _inspect(obj: object, name: str | None, depth: int, dump: Dump) -> tuple[str, set[FailureTuple]]:
    search = _Search(dump)
    lines = [_RULE, f"Checking Serializability of {short_repr(obj)}", _RULE]
    reason = search.why_not(obj)
    if reason is None:
        return "\n".join([*lines, "It can be serialized.", _RULE]), set()
    name = name or str(getattr(obj, "__name__", type(obj).__name__))
    search.take_apart(FailureTuple(obj, name, None, reason=reason), depth)
    lines += [f"!!! FAIL serialization: {reason}", *search.lines, _RULE, "What cannot be serialized:"]
    lines += [f"    {one.path}: {short_repr(one.obj)}" for one in search.failures]
    lines += [
        "Make it inside the function or class that uses it, or leave it out of the object's pickled state.",
        _RULE,
    ]
    return "\n".join(lines), set(search.failures)


class _Search:
    """One walk through an object, writing down what it sees."""

    def __init__(self, dump: Dump) -> None:
        self.lines: list[str] = []
        self.failures: list[FailureTuple] = []
        self._dump = dump
        self._seen: dict[int, object] = {}  # holds the objects, so that no id is used twice
        self._tries_left = TRIES_MAX

    def why_not(self, obj: object) -> str | None:
        """Why the object cannot be pickled; None if it can."""
        self._tries_left -= 1
        try:
            self._dump(obj)
        except Exception as error:
            return str(error) or type(error).__name__
        return None

    def take_apart(self, whole: FailureTuple, depth: int, level: int = 1) -> None:
        """Goes on with the parts that fail. If there are none, it is the whole that cannot be pickled."""
        self._seen[id(whole.obj)] = whole.obj
        is_explained = False
        for kind, part in self._failing_parts(whole) if depth > 0 else ():
            is_explained = True
            if id(part.obj) in self._seen:
                continue  # told already, or being told: a cycle
            indent = "    " * level
            self.lines.append(f"{indent}{kind} {part.name}: {short_repr(part.obj)}")
            self.lines.append(f"{indent}!!! FAIL serialization: {part.reason}")
            self.take_apart(part, depth - 1, level + 1)
        if not is_explained:
            self.failures.append(whole)

    def _failing_parts(self, whole: FailureTuple) -> Iterator[tuple[str, FailureTuple]]:
        for count, (kind, name, step, part) in enumerate(_parts(whole.obj)):
            if count >= PIECES_MAX or self._tries_left <= 0:
                return
            reason = "" if id(part) in self._seen else self.why_not(part)
            if reason is not None:
                yield kind, FailureTuple(part, name, whole.obj, path=whole.path + step, reason=reason)


class _Sink:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)


def _dump(obj: object) -> None:
    from eagleray._values.pickling import Pickler

    # Large buffers are not even copied.
    Pickler(_Sink(), protocol=5, buffer_callback=lambda _buffer: None).dump(obj)


def _parts(obj: object) -> Iterator[tuple[str, str, str, object]]:
    """What an object consists of: the kind of part, its name, the step of a path to it, and the part."""
    if isinstance(obj, types.FunctionType):
        yield from _parts_of_function(obj)
    elif isinstance(obj, types.MethodType):
        yield "attribute", "__self__", ".__self__", obj.__self__
        yield "attribute", "__func__", ".__func__", obj.__func__
    elif isinstance(obj, (staticmethod, classmethod)):
        yield "function", obj.__func__.__name__, "", obj.__func__
    elif isinstance(obj, property):
        for accessor in (obj.fget, obj.fset, obj.fdel):
            if accessor is not None:
                yield "function", accessor.__name__, "", accessor
    elif isinstance(obj, type):
        for base in obj.__bases__:
            yield "base class", base.__name__, f" > {base.__name__}", base
        yield from _attributes(dict(vars(obj)), without=("__dict__", "__weakref__", "__doc__", "__module__"))
    else:
        yield from _parts_of_instance(obj)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, str, str, object]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield "closure variable", name, f" > {name}", cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    for name in sorted(_global_names(code)):
        if name in function.__globals__:
            yield "global variable", name, f" > {name}", function.__globals__[name]
    defaults = function.__defaults__ or ()
    for name, value in zip(code.co_varnames[code.co_argcount - len(defaults) :], defaults, strict=False):
        yield "default of parameter", name, f" > {name}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield "default of parameter", name, f" > {name}", value
    yield from _attributes(vars(function))


def _global_names(code: types.CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(_global_names, inner))


def _parts_of_instance(obj: object) -> Iterator[tuple[str, str, str, object]]:
    if isinstance(obj, dict):
        for key, value in list(obj.items()):
            yield "key", short_repr(key), f"[{short_repr(key)}]", key
            yield "value of key", short_repr(key), f"[{short_repr(key)}]", value
    elif isinstance(obj, (list, tuple, set, frozenset)):
        for place, value in enumerate(list(obj)):
            yield "element", str(place), f"[{place}]", value
    elif type(obj).__name__ == "partial" and hasattr(obj, "keywords"):
        yield from _attributes({name: getattr(obj, name) for name in ("func", "args", "keywords")})
    cls = type(obj)
    if cls.__flags__ & 1 << 9:  # not built in
        yield "class", cls.__name__, f" > {cls.__name__}", cls
    slots = {
        name: value.__get__(obj)
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, types.MemberDescriptorType) and hasattr(obj, name)
    }
    yield from _attributes(slots | getattr(obj, "__dict__", {}))


def _attributes(attributes: dict[str, object], without: tuple[str, ...] = ()) -> Iterator[tuple[str, str, str, object]]:
    for name, value in attributes.items():
        if name not in without:
            yield "attribute", name, f".{name}", value
