"""What handles on actors need to know of their class, anywhere: method table, limits, names."""

from __future__ import annotations

import collections
import pickle
import weakref
from typing import Any

from eagleray import _native
from eagleray._calls import checking
from eagleray._calls.grouped_yields import NAME as GROUPED
from eagleray._calls.signature import Signature, compile_signature

#: Every actor has these beside its own.
BUILTIN_METHODS = ("__ray_ready__", "__ray_call__", "__ray_terminate__")
#: The options of an actor that its handles depend on.
META_OPTIONS = (
    "max_concurrency",
    "concurrency_groups",
    "max_pending_calls",
    "max_task_retries",
    "retry_exceptions",
    "_actor_generator_backpressure_num_objects",
)
_NOT_CALLABLE = ("__init__", "__new__", "__init_subclass__", "__class_getitem__")

#: By packed form, so that all handles of a process on actors made alike share one. A program may make ever new classes: handles and classes
#: keep what they need, and the latest are kept for handles that come and go.
_KNOWN: weakref.WeakValueDictionary[bytes, ActorMeta] = weakref.WeakValueDictionary()
_LATEST: collections.deque[ActorMeta] = collections.deque(maxlen=64)


class ActorMeta:
    """What all handles on actors of one class that were made with the same options share.

    Attributes:
        packed: this in bytes, as it travels with handles.
        core: this as native code knows it.
    """

    __slots__ = (
        "__weakref__",
        "ahead_together",
        "class_id",
        "class_name",
        "concurrency",
        "core",
        "groups",
        "groups_of_values",
        "is_async",
        "module",
        "packed",
    )

    def __init__(self, packed: bytes) -> None:
        # Handles that earlier versions pickled do not say how far ahead generators may be, nor how many values a yield gives.
        facts = {"ahead_together": 0, "groups_of_values": {}, **pickle.loads(packed)}
        self.packed = packed
        self.class_id: bytes = facts["class_id"]
        self.class_name: str = facts["class_name"]
        self.module: str = facts["module"]
        self.is_async: bool = facts["is_async"]
        self.concurrency: int = facts["concurrency"]
        #: Of methods, by name, with how many calls each runs at once. The default group is none of them.
        self.groups: dict[str, int] = facts["groups"]
        #: How many values all generators of the actor may be ahead of who reads them, together; zero: any number.
        self.ahead_together: int = facts["ahead_together"]
        #: By method, where it is not one: how many values a yield gives.
        self.groups_of_values: dict[str, int] = facts["groups_of_values"]
        self.core = _native.ClassCore(
            class_id=self.class_id,
            methods=facts["methods"],
            pending_max=facts["pending_max"],
            callee=self.class_name,
            groups=[(not self.is_async and size <= 1, size) for size in (self.concurrency, *self.groups.values())],
        )

    def bounded(self, returns: tuple[int, str, int]) -> tuple[int, str, int]:
        """Let no generator be further ahead than all may be together: so its worker hears how much was read."""
        return _bounded(returns, self.ahead_together)

    def group_number(self, name: str) -> int:
        """Give the number that calls name the group by."""
        return group_number(self.groups, name, self.class_name)

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (self.packed,)


def _bounded(returns: tuple[int, str, int], together: int) -> tuple[int, str, int]:
    count, kind, ahead = returns
    return (count, kind, min(ahead or together, together)) if together and kind == "streaming" else returns


def group_number(groups: dict[str, int], name: str | None, class_name: str) -> int:
    """Give the number that calls name a group by; None is the default group."""
    if name is None:
        return 0
    if name not in groups:
        known = ", ".join(f"'{group}'" for group in groups) or "none"
        raise ValueError(
            f"The concurrency group '{name}' is not defined for the actor class {class_name}. Defined groups: {known}."
        )
    return 1 + list(groups).index(name)


def unpacked(packed: bytes) -> ActorMeta:
    """Give the facts that somebody packed; the same object each time."""
    found = _KNOWN.get(packed)
    if found is None:
        found = _KNOWN[packed] = ActorMeta(packed)
        _LATEST.append(found)
    return found


def meta_of(cls: type, options: dict[str, Any], class_id: bytes, *, is_async: bool) -> ActorMeta:
    """Gather the facts about actors of this class under these options."""
    concurrency, pending = options.get("max_concurrency"), options.get("max_pending_calls")
    facts = {
        "class_id": class_id,
        "class_name": cls.__name__,
        "module": cls.__module__,
        "is_async": is_async,
        "concurrency": concurrency if concurrency is not None else (1000 if is_async else 1),
        "groups": options.get("concurrency_groups") or {},
        "ahead_together": max(0, options.get("_actor_generator_backpressure_num_objects") or 0),
        "groups_of_values": {
            name: size for name, value in methods_of(cls).items() if (size := own_options(value).get(GROUPED) or 1) > 1
        },
        "pending_max": 0 if pending is None or pending < 0 else pending,
        "methods": {**_own_methods(cls, options), **_builtin_methods(cls, options)},
    }
    return unpacked(pickle.dumps(facts, protocol=5))


def methods_of(cls: type) -> dict[str, Any]:
    """Find the functions of the class and of its bases."""
    import inspect

    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is object:
            continue
        for name, value in vars(base).items():
            plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if inspect.isroutine(plain) and name not in _NOT_CALLABLE[1:]:
                found[name] = value
    return found


def own_options(value: Any) -> dict[str, Any]:
    """Give what `@method` said about a method."""
    options: dict[str, Any] = getattr(getattr(value, "__func__", value), "__ray_method_options__", {})
    return options


def check_groups(cls: type, groups: dict[str, int] | None) -> None:
    """Check that every method names a group that the class has."""
    for value in methods_of(cls).values():
        group_number(groups or {}, own_options(value).get("concurrency_group"), cls.__name__)


#: Signature; returns, how values are yielded, how far ahead; retries, whether exceptions are retried, name, whether it yields, its group.
_Method = tuple[Signature, tuple[int, str, int], int, bool, str, bool, int]


def _own_methods(cls: type, options: dict[str, Any]) -> dict[str, _Method]:
    """Tell of each method what its calls need to know."""
    import inspect

    groups = options.get("concurrency_groups") or {}
    together = max(0, options.get("_actor_generator_backpressure_num_objects") or 0)
    found: dict[str, _Method] = {}
    for name, value in methods_of(cls).items():
        if name in _NOT_CALLABLE:
            continue
        own = own_options(value)
        function = getattr(cls, name) if isinstance(value, classmethod) else getattr(value, "__func__", value)
        retries = own.get("max_task_retries")
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        found[name] = (
            compile_signature(function, skip_self=not isinstance(value, (staticmethod, classmethod))),
            _bounded(checking.returns_of(own, is_generator=is_generator), together),
            (options.get("max_task_retries") or 0) if retries is None else retries,
            bool(own.get("retry_exceptions", options.get("retry_exceptions", False))),
            own.get("name") or f"{cls.__name__}.{name}",
            is_generator,
            group_number(groups, own.get("concurrency_group"), cls.__name__),
        )
    return found


def _builtin_methods(cls: type, options: dict[str, Any]) -> dict[str, _Method]:
    retries = options.get("max_task_retries") or 0
    plain = compile_signature(lambda: None, skip_self=False)
    takes_function = compile_signature(lambda fn, *args, **kwargs: None, skip_self=False)
    one = (1, "", 0)
    return {
        "__ray_ready__": (plain, one, retries, False, f"{cls.__name__}.__ray_ready__", False, 0),
        "__ray_terminate__": (plain, one, 0, False, f"{cls.__name__}.__ray_terminate__", False, 0),
        "__ray_call__": (takes_function, one, retries, False, f"{cls.__name__}.__ray_call__", False, 0),
    }
