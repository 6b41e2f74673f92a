"""Classes that are two at once: a task's error, and the class that the task raised.

A user's class may define anything: a metaclass, `__setattr__`, a property named `cause` or `args`. What the pair needs
for itself stands in the made class, in front of both parents.
"""

from __future__ import annotations

import weakref

from eagleray._errors import causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: From a user's class to the class made of it. Both sides are weak: classes made in a task must be able to go.
_MADE: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()

#: What a dual error has for its own. If the cause has such a name too, it is found at `.cause`.
_OWN = ("cause", "function_name", "traceback_str", "proctitle", "pid", "ip", "actor_repr", "_task_actor_id")


def dual_class(error_class: type, cause_class: type[BaseException]) -> type[Any]:
    """The class that is both. Raises what the user's class raises against being subclassed."""
    known = _MADE.get(cause_class)
    made = known() if known is not None else None
    if made is None:
        made = _make(error_class, cause_class)
        _MADE[cause_class] = weakref.ref(made)
    return made


def _make(error_class: type, cause_class: type[BaseException]) -> type:
    name = f"{error_class.__name__}({cause_class.__name__})"
    namespace: dict[str, Any] = {
        "__module__": error_class.__module__,
        "__qualname__": name,
        "__doc__": f"A task raised {cause_class.__name__}.",
        "__getattr__": _attribute_of_cause,
        "__getattribute__": BaseException.__getattribute__,
        "__setattr__": BaseException.__setattr__,
        "__delattr__": BaseException.__delattr__,
        "args": causes.ARGS,
    }
    namespace |= {own: _own_attribute(own) for own in _OWN if hasattr(cause_class, own)}
    metaclass: Any = type(cause_class)
    made: type = metaclass(name, (error_class, cause_class), namespace)
    return made


def _attribute_of_cause(self: BaseException, name: str) -> Any:
    cause = causes.attributes_of(self).get("cause")
    # Protocols such as `__deepcopy__` are about this object, not about the one inside.
    if cause is None or name.startswith("__"):
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=self)
    return getattr(cause, name)


def _own_attribute(name: str) -> property:
    return property(lambda self: causes.attributes_of(self)[name])
