"""Signatures compiled once, so that a wrong call fails at `.remote()` and a right one pays next to nothing.

`inspect.Signature.bind` builds objects for every call. Here a call without keywords is checked by comparing its length
with two numbers, which native code can read and compare by itself; only other calls look at names.
"""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_TAKES_ARGS = 0x04
_TAKES_KWARGS = 0x08


class Signature:
    """What a callable takes.

    A call with positional arguments only is right if `plain` and `min_positional <= n <= max_positional`.

    Attributes:
        name: as Python would name the callable in its own errors.
        min_positional: how many positional parameters have no default.
        max_positional: how many positional arguments it takes at most; -1 for any number.
        plain: whether it has no keyword-only parameter without a default.
    """

    __slots__ = (
        "_keyword_only",
        "_positional",
        "_positional_only",
        "_required_keywords",
        "_takes_any_keyword",
        "max_positional",
        "min_positional",
        "name",
        "plain",
    )

    def __init__(
        self,
        name: str,
        *,
        positional: Sequence[str] = (),
        positional_only: int = 0,
        defaults: int = 0,
        keyword_only: Sequence[str] = (),
        required_keywords: Sequence[str] = (),
        takes_any_positional: bool = False,
        takes_any_keyword: bool = False,
    ) -> None:
        self.name = name
        self.min_positional = len(positional) - defaults
        self.max_positional = -1 if takes_any_positional else len(positional)
        self.plain = not required_keywords
        self._positional = tuple(positional)
        self._positional_only = positional_only
        self._keyword_only = frozenset(keyword_only)
        self._required_keywords = tuple(required_keywords)
        self._takes_any_keyword = takes_any_keyword

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raises TypeError, in Python's words, if the callable cannot be called like this."""
        count = len(args)
        fits = self.max_positional < 0 or count <= self.max_positional
        if not kwargs and self.plain and fits and count >= self.min_positional:
            return
        self._check_keywords(count, kwargs)
        if not fits:
            raise TypeError(self._too_many(count))
        required = self._positional[count : self.min_positional]
        by_name = self._positional[self._positional_only :]
        self._check_missing("positional", [name for name in required if name not in kwargs or name not in by_name])
        self._check_missing("keyword-only", [name for name in self._required_keywords if name not in kwargs])

    def _check_keywords(self, count: int, kwargs: Mapping[str, Any]) -> None:
        for name in kwargs:
            if name in self._keyword_only:
                continue
            place = self._positional.index(name) if name in self._positional else -1
            if place >= self._positional_only:
                if place < count:
                    text = f"{self.name}() got multiple values for argument {name!r}"
                    raise TypeError(text)
            elif not self._takes_any_keyword:
                raise TypeError(self._unwelcome(name, kwargs))

    def _unwelcome(self, name: str, kwargs: Mapping[str, Any]) -> str:
        by_place = [other for other in self._positional[: self._positional_only] if other in kwargs]
        if name not in by_place:
            return f"{self.name}() got an unexpected keyword argument {name!r}"
        return f"{self.name}() got some positional-only arguments passed as keyword arguments: '{', '.join(by_place)}'"

    def _check_missing(self, kind: str, names: list[str]) -> None:
        if names:
            listed = _listed([repr(name) for name in names])
            text = f"{self.name}() missing {len(names)} required {kind} argument{_s(len(names))}: {listed}"
            raise TypeError(text)

    def _too_many(self, count: int) -> str:
        low, high = self.min_positional, self.max_positional
        takes = f"{high}" if low == high else f"from {low} to {high}"
        were = "was" if count == 1 else "were"
        return f"{self.name}() takes {takes} positional argument{_s(high)} but {count} {were} given"

    def __repr__(self) -> str:
        return f"<Signature of {self.name}: {self.min_positional} to {self.max_positional} positional>"


def compile_signature(function: Any, *, skip_self: bool) -> Signature:
    """The signature of a function, or with `skip_self` of a method as found in its class.

    What is already bound (a bound method, a class method got from its class) has no self left to skip; a static method
    never had one. A callable that tells nothing about its parameters takes anything.
    """
    if isinstance(function, staticmethod):
        return compile_signature(function.__func__, skip_self=False)
    if isinstance(function, classmethod):
        return compile_signature(function.__func__, skip_self=True)
    if isinstance(function, types.MethodType):
        return compile_signature(function.__func__, skip_self=True)
    if isinstance(function, types.FunctionType) and not hasattr(function, "__signature__"):
        return _from_code(function, skip=int(skip_self))
    return _from_inspect(function, skip_self=skip_self)


def compile_constructor(cls: type) -> Signature:
    """The signature of calling a class."""
    new, init = _found(cls, "__new__"), _found(cls, "__init__")
    if init is not object.__init__:
        return compile_signature(init, skip_self=True)
    if new is not object.__new__:
        # Written as a static method that takes the class first.
        return compile_signature(getattr(new, "__func__", new), skip_self=True)
    return Signature(cls.__qualname__)


def _found(cls: type, name: str) -> Any:
    return next(vars(base)[name] for base in cls.__mro__ if name in vars(base))


def _from_code(function: types.FunctionType, *, skip: int) -> Signature:
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    has_default = function.__kwdefaults__ or {}
    skip = min(skip, len(positional))  # `def m(*args)` takes self among them
    return Signature(
        function.__qualname__,
        positional=positional[skip:],
        positional_only=max(code.co_posonlyargcount - skip, 0),
        defaults=min(len(function.__defaults__ or ()), len(positional) - skip),
        keyword_only=keyword_only,
        required_keywords=[name for name in keyword_only if name not in has_default],
        takes_any_positional=bool(code.co_flags & _TAKES_ARGS),
        takes_any_keyword=bool(code.co_flags & _TAKES_KWARGS),
    )


def _from_inspect(function: Callable[..., Any], *, skip_self: bool) -> Signature:
    import inspect

    name = _name_of(function)
    try:
        # Python calls the wrapper, not what it wraps; the two may differ.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return Signature(name, takes_any_positional=True, takes_any_keyword=True)
    kinds = inspect.Parameter
    parameters = list(signature.parameters.values())
    if skip_self and parameters and parameters[0].kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
        del parameters[0]
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    keyword_only = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    return Signature(
        name,
        positional=[p.name for p in positional],
        positional_only=sum(p.kind is kinds.POSITIONAL_ONLY for p in positional),
        defaults=sum(p.default is not kinds.empty for p in positional),
        keyword_only=[p.name for p in keyword_only],
        required_keywords=[p.name for p in keyword_only if p.default is kinds.empty],
        takes_any_positional=any(p.kind is kinds.VAR_POSITIONAL for p in parameters),
        takes_any_keyword=any(p.kind is kinds.VAR_KEYWORD for p in parameters),
    )


def _name_of(function: Any) -> str:
    while hasattr(function, "func"):  # a partial
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _listed(names: list[str]) -> str:
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
