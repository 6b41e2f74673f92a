"""Declares every option of tasks, actors and methods: its name, its default and the check of its value.

A check takes the option's name and value and returns the value to keep; it raises TypeError for a wrong type and
ValueError for a wrong value. Checks of one option against another are in `checking.py`.
"""

from __future__ import annotations

import math

from eagleray._common.amounts import PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[str, Any], Any]
    Table = dict[str, "Option"]

#: Up to here a float is exact, in parts of a resource and in bytes of memory.
PARTS_MAX = 2**53

#: Counts travel as 32 bits. Nobody lives to see the difference, so larger ones are cut.
COUNT_MAX = 2**31 - 1

_NONE = type(None)


class Option:
    """One option: what it is when not given, and the check of what is given."""

    __slots__ = ("check", "default")

    def __init__(self, check: Check, default: Any = None) -> None:
        self.check = check
        self.default = default


def parts_of(name: str, value: float) -> int:
    """The amount of a resource in ten-thousandths, cut so that n requests of 1/n fit into 1. Memory: whole bytes."""
    if not hasattr(value, "__float__"):  # texts have none, numbers of numpy and others do
        text = f"The quantity of resource {name} must be a number, not {value!r}"
        raise TypeError(text)
    if abs(value) == math.inf or value != value:  # NaN differs from itself
        text = f"The quantity of resource {name} must be a finite number, not {value}"
        raise ValueError(text)
    if value < 0:
        text = f"The quantity of resource {name} cannot be negative"
        raise ValueError(text)
    if value > (PARTS_MAX if name == "memory" else PARTS_MAX // PARTS):
        text = f"The quantity of resource {name} is too large: {value}"
        raise ValueError(text)
    if name == "memory":
        return math.ceil(value)
    # The millionth undoes what 0.29 * 10000 == 2899.9999999999995 lacks.
    parts = value * PARTS if isinstance(value, int) else math.floor(value * PARTS + 1e-6)
    if value and not parts:
        text = f"The precision of the fractional quantity of resource {name} cannot go beyond 0.0001"
        raise ValueError(text)
    return parts


def _require(name: str, value: Any, *types: type) -> None:
    # True is an int to Python, but `max_retries=True` is a slip.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        wanted = types if len(types) > 1 else types[0]
        text = f"The type of keyword '{name}' must be {wanted}, but received type {type(value)}"
        raise TypeError(text)


def _of(*types: type) -> Check:
    def check(name: str, value: Any) -> Any:
        _require(name, value, *types)
        return value

    return check


def _count(name: str, value: Any) -> Any:
    _require(name, value, int, _NONE)
    if value is not None and value < 0:
        text = f"The keyword '{name}' only accepts None, 0 or a positive integer"
        raise ValueError(text)
    return value and min(value, COUNT_MAX)


def _count_or_infinite(name: str, value: Any) -> Any:
    _require(name, value, int, _NONE)
    if value is not None and value < -1:
        text = f"The keyword '{name}' only accepts None, 0, -1 or a positive integer, where -1 represents infinity."
        raise ValueError(text)
    return value and min(value, COUNT_MAX)


def _concurrency(name: str, value: Any) -> Any:
    value = _count(name, value)
    if value == 0:
        raise ValueError("max_concurrency must be greater than 0")
    return value


def _quantity(name: str, value: Any) -> Any:
    # A bool is welcome here: `num_gpus=torch.cuda.is_available()` says what it means.
    if not isinstance(value, bool):
        _require(name, value, float, int, _NONE)
    if value is not None:
        parts_of(name, value)
    return value


def _memory(name: str, value: Any) -> Any:
    _require(name, value, float, int, _NONE)
    if value is not None:
        parts_of("memory", value)
    return value


def _resources(name: str, value: Any) -> Any:
    _require(name, value, dict, _NONE)
    if value is None:
        return None
    if "CPU" in value or "GPU" in value:
        raise ValueError("Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in 'resources' keyword")
    if "memory" in value or "object_store_memory" in value:
        raise ValueError("Use the 'memory' keyword instead of 'memory' in 'resources' keyword")
    for key, amount in value.items():
        if not isinstance(key, str) or not key:
            text = f"The keys of keyword '{name}' must be the names of resources, but received {key!r}"
            raise TypeError(text)
        if not isinstance(amount, (int, float)):
            text = f"The quantity of resource {key} must be a number, but received type {type(amount)}"
            raise TypeError(text)
        parts_of(key, amount)
    return dict(value)


def _returns(name: str, value: Any) -> Any:
    _require(name, value, int, str, _NONE)
    is_word = isinstance(value, str)
    if (is_word and value not in ("streaming", "dynamic")) or (value and not is_word and value < 0):
        text = (
            f"The keyword '{name}' only accepts None, a non-negative integer, 'streaming' or 'dynamic', not {value!r}"
        )
        raise ValueError(text)
    if value and not is_word and value > COUNT_MAX:
        raise ValueError(f"The keyword '{name}' must be at most {COUNT_MAX}, not {value}")
    return value


def _retry_exceptions(name: str, value: Any) -> Any:
    _require(name, value, bool, list, tuple, _NONE)
    for one in value if isinstance(value, (list, tuple)) else ():
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            text = f"The keyword '{name}' must be a boolean or a list of exception classes, but it contains {one!r}"
            raise TypeError(text)
    return value


def _actor_name(name: str, value: Any) -> Any:
    _require(name, value, str, _NONE)
    if value == "":
        raise ValueError("Actor name cannot be an empty string.")
    return value


def _namespace(name: str, value: Any) -> Any:
    _require(name, value, str, _NONE)
    if value == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')
    return value


def _lifetime(name: str, value: Any) -> Any:
    if value not in (None, "detached", "non_detached"):
        text = f"actor `{name}` argument must be one of 'detached', 'non_detached' and 'None', not {value!r}"
        raise ValueError(text)
    return value


def _concurrency_groups(name: str, value: Any) -> Any:
    _require(name, value, dict, list, _NONE)
    if isinstance(value, list):
        value = {one["name"]: one["max_concurrency"] for one in value}
    for group, size in (value or {}).items():
        _require(name, group, str)
        _require(name, size, int)
        if size < 1:
            text = f"max_concurrency must be greater than 0, but concurrency group '{group}' has {size}"
            raise ValueError(text)
    return value and dict(value)


def _runtime_env(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        text = f"The type of keyword '{name}' must be dict or RuntimeEnv, but received type {type(value)}"
        raise TypeError(text)
    if not value:
        return value
    # Here, so that nobody has to load it who gives none.
    from eagleray.runtime_env import usable

    return usable(value)


_STRATEGY_WORDS = ("DEFAULT", "SPREAD")
_STRATEGY_CLASSES = (
    "PlacementGroupSchedulingStrategy",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
)


def _strategy(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if value not in _STRATEGY_WORDS:
            text = f"Invalid {name} {value!r}. Valid words are {list(_STRATEGY_WORDS)}"
            raise ValueError(text)
    elif value is not None and not _is_called(value, *_STRATEGY_CLASSES):
        text = f"The type of keyword '{name}' must be str or a scheduling strategy, but received type {type(value)}"
        raise TypeError(text)
    return value


def _placement_group(name: str, value: Any) -> Any:
    if value not in (None, "default") and not _is_called(value, "PlacementGroup"):
        text = (
            f"The type of keyword '{name}' must be PlacementGroup, None or 'default', but received type {type(value)}"
        )
        raise TypeError(text)
    return value


def _is_called(value: Any, *names: str) -> bool:
    return any(base.__name__ in names for base in type(value).__mro__)


_LABEL = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_LABEL_KEY = rf"([A-Za-z0-9.-]+/)?{_LABEL}"
_LABEL_VALUE = rf"!?({_LABEL}|in\({_LABEL}(,\s*{_LABEL})*\))|"


def _label_selector(name: str, value: Any) -> Any:
    import re

    _require(name, value, dict, _NONE)
    for key, wanted in (value or {}).items():
        if not isinstance(key, str) or not isinstance(wanted, str):
            text = f"The keyword '{name}' must map strings to strings, but received {key!r}: {wanted!r}"
            raise TypeError(text)
        if not re.fullmatch(_LABEL_KEY, key) or not re.fullmatch(_LABEL_VALUE, wanted):
            text = f"Invalid label selector {key!r}: {wanted!r}. Write 'v', '!v', 'in(a,b)' or '!in(a,b)'"
            raise ValueError(text)
    return value and dict(value)


def _fallback_strategy(name: str, value: Any) -> Any:
    _require(name, value, list, _NONE)
    for one in value or ():
        if not isinstance(one, dict) or set(one) != {"label_selector"}:
            text = f"The keyword '{name}' must be a list of {{'label_selector': ...}}, but it contains {one!r}"
            raise ValueError(text)
        _label_selector("label_selector", one["label_selector"])
    return value


def _backpressure(name: str, value: Any) -> Any:
    _require(name, value, int, _NONE)
    if value is not None and value != -1 and value < 1:
        text = f"{name}={value} is not allowed. Use a value > 0, or -1 to let the generator run ahead without limit."
        raise ValueError(text)
    return value


def _positive(name: str, value: Any) -> Any:
    _require(name, value, int, _NONE)
    if value is not None and value < 1:
        text = f"The keyword '{name}' only accepts None or a positive integer"
        raise ValueError(text)
    return value


_COMMON: Table = {
    "num_cpus": Option(_quantity),
    "num_gpus": Option(_quantity),
    "memory": Option(_memory),
    "object_store_memory": Option(_memory),  # taken for Ray's sake; the store is not divided by request
    "resources": Option(_resources),
    "accelerator_type": Option(_of(str, _NONE)),
    "label_selector": Option(_label_selector),
    "fallback_strategy": Option(_fallback_strategy),
    "runtime_env": Option(_runtime_env),
    "scheduling_strategy": Option(_strategy),
    "placement_group": Option(_placement_group, "default"),
    "placement_group_bundle_index": Option(_of(int), -1),
    "placement_group_capture_child_tasks": Option(_of(bool, _NONE)),
    "enable_task_events": Option(_of(bool), default=True),
    "_labels": Option(_of(dict, _NONE)),
    "_metadata": Option(_of(dict, _NONE)),
}

_CALL: Table = {
    "num_returns": Option(_returns),
    "retry_exceptions": Option(_retry_exceptions, default=False),
    "name": Option(_of(str, _NONE)),
    "_generator_backpressure_num_objects": Option(_backpressure),
    "_num_objects_per_yield": Option(_positive),
}

TASK: Table = {
    **_COMMON,
    **_CALL,
    "num_cpus": Option(_quantity, 1),
    "max_calls": Option(_count, 0),
    "max_retries": Option(_count_or_infinite, 3),
}

ACTOR: Table = {
    **_COMMON,
    "name": Option(_actor_name),
    "namespace": Option(_namespace),
    "lifetime": Option(_lifetime),
    "get_if_exists": Option(_of(bool), default=False),
    "max_restarts": Option(_count_or_infinite, 0),
    "max_task_retries": Option(_count_or_infinite, 0),
    "max_concurrency": Option(_concurrency),
    "max_pending_calls": Option(_count_or_infinite, -1),
    "concurrency_groups": Option(_concurrency_groups),
    "allow_out_of_order_execution": Option(_of(bool, _NONE)),
    "enable_tensor_transport": Option(_of(bool, _NONE)),
    "_actor_generator_backpressure_num_objects": Option(_backpressure),
}

METHOD: Table = {
    **_CALL,
    "concurrency_group": Option(_of(str, _NONE)),
    "max_task_retries": Option(_count_or_infinite),
    "enable_task_events": Option(_of(bool), default=True),
    "tensor_transport": Option(_of(str, _NONE)),
}
