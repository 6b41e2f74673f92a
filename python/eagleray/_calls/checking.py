"""Checks the options that users give to tasks, actors and methods, and turns resources into what the core counts.

Options are checked when they are given, at `@remote` or `.options()`, so that a call pays nothing for it. What comes
back holds only what the user gave; a name that is missing has its default (`TASK_DEFAULTS` and its sisters).
"""

from __future__ import annotations

from eagleray._calls.option_tables import ACTOR, METHOD, TASK, parts_of
from eagleray._common.amounts import PARTS
from eagleray._common.near import hint
from eagleray._common.settings import from_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from eagleray._calls.option_tables import Table

TASK_DEFAULTS: dict[str, Any] = {name: option.default for name, option in TASK.items()}
ACTOR_DEFAULTS: dict[str, Any] = {name: option.default for name, option in ACTOR.items()}
METHOD_DEFAULTS: dict[str, Any] = {name: option.default for name, option in METHOD.items()}

#: What a request for an accelerator by its kind takes of that kind's resource, in parts: a mark, not a share.
_ACCELERATOR_PARTS = PARTS // 1000


def task_options(**given: object) -> dict[str, Any]:
    """Checks what `@remote` says about a function."""
    return _finish_task(_checked(TASK, "remote functions", given))


def merge_task_options(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`base`, as changed by a function's `.options(**overrides)`."""
    if overrides.get("max_calls") is not None:
        raise ValueError("Setting 'max_calls' is not supported in '.options()'.")
    changes = {name: value for name, value in overrides.items() if name != "max_calls"}
    return _finish_task({**base, **_checked(TASK, "remote functions", changes)})


def actor_options(**given: object) -> dict[str, Any]:
    """Checks what `@remote` says about a class."""
    return _finish_placement(_checked(ACTOR, "actors", given))


def merge_actor_options(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`base`, as changed by an actor class's `.options(**overrides)`."""
    if overrides.get("concurrency_groups") is not None:
        raise ValueError("Setting 'concurrency_groups' is not supported in '.options()'.")
    return _finish_placement({**base, **_checked(ACTOR, "actors", overrides)})


def method_options(**given: object) -> dict[str, Any]:
    """Checks what `@method` says about an actor's method."""
    return _checked(METHOD, "actor methods", given)


def merge_method_options(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`base`, as changed by a method's `.options(**overrides)`."""
    return {**base, **_checked(METHOD, "actor methods", overrides)}


def check_creation(options: Mapping[str, Any], *, is_async: bool) -> None:
    """Checks at the creation of an actor what depends on several options and on its class."""
    if options.get("get_if_exists") and not options.get("name"):
        raise ValueError("The actor name must be specified to use `get_if_exists`.")
    has_groups = bool(options.get("concurrency_groups"))
    is_concurrent = is_async or has_groups or (options.get("max_concurrency") or 1) > 1
    if options.get("allow_out_of_order_execution") is False and is_concurrent:
        raise ValueError("allow_out_of_order_execution=False is not supported for async or threaded actors.")


def returns_of(options: Mapping[str, Any], *, is_generator: bool) -> tuple[int, str, int]:
    """How many values come back with the end, whether others come before ("", "streaming", "dynamic"), and how far ahead.

    A generator streams unless it is told otherwise. The one value that comes with its end says how it ended, or names
    all that it yielded. Whether a function that is no generator returns one, as decorated ones do, is seen when it has run.
    """
    num_returns = options.get("num_returns")
    if num_returns is None:
        num_returns = "streaming" if is_generator else 1
    if num_returns == "streaming":
        return 1, "streaming", max(0, options.get("_generator_backpressure_num_objects") or 0)
    if num_returns == "dynamic":
        return 1, "dynamic", 0
    return int(num_returns), "", 0


def check_bundle_index(placement_group: Any, index: int) -> None:
    """Checks that a placement group, or none, has a bundle of this number. -1 stands for any."""
    count = getattr(placement_group, "bundle_count", None)
    if count is None:
        if index != -1:
            text = f"Without a placement group the bundle index must be -1, not {index}."
            raise ValueError(text)
    elif not -1 <= index < count:
        text = f"placement group bundle index {index} is invalid. Valid placement group indexes: 0-{count - 1}"
        raise ValueError(text)


def default_max_retries() -> int:
    """How often a task that says nothing is tried again after a failure of the system."""
    return int(from_env("TASK_MAX_RETRIES") or TASK_DEFAULTS["max_retries"])


def fixed_resources(options: Mapping[str, Any], *, default_cpus: int = 1) -> dict[str, int]:
    """What the options ask for, by public name, without zeros.

    In ten-thousandths, so that nothing drifts; `memory` is in whole bytes.
    """
    num_cpus = options.get("num_cpus")
    amounts = {
        "CPU": default_cpus if num_cpus is None else num_cpus,
        "GPU": options.get("num_gpus") or 0,
        "memory": options.get("memory") or 0,
        **(options.get("resources") or {}),
    }
    fixed = {name: parts for name, amount in amounts.items() if (parts := parts_of(name, amount))}
    if options.get("accelerator_type"):
        fixed[f"accelerator_type:{options['accelerator_type']}"] = _ACCELERATOR_PARTS
    return fixed


def env_vars(options: Mapping[str, Any]) -> dict[str, str]:
    """Which environment variables the options give."""
    return dict((options.get("runtime_env") or {}).get("env_vars") or {})


def packages(options: Mapping[str, Any]) -> dict[str, str]:
    """Which packages the options ask for, as they stand among variables. They are on their way then."""
    env = options.get("runtime_env")
    if not env or not (env.get("working_dir") or env.get("py_modules")):
        return {}
    from eagleray.runtime_env.packages import of_call

    return of_call(env)


def travelling(options: dict[str, Any]) -> dict[str, Any]:
    """The options as they mean the same elsewhere."""
    env = options.get("runtime_env")
    if not env or not (env.get("working_dir") or env.get("py_modules")):
        return options
    from eagleray.runtime_env.packages import travelling

    return {**options, "runtime_env": travelling(env)}


def actor_resources(options: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """What must be free to place an actor, and what it holds while it lives.

    An actor that asks for nothing is placed by one CPU and then holds none, so that thousands of idle ones fit. One
    that names CPUs, GPUs or custom resources holds what it names, and one CPU if it does not name that.
    """
    to_place = fixed_resources(options)
    if options.get("resources") or any(options.get(name) is not None for name in ("num_cpus", "num_gpus")):
        return to_place, dict(to_place)
    return to_place, fixed_resources(options, default_cpus=0)


def _checked(table: Table, whom: str, given: Mapping[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, value in given.items():
        option = table.get(name)
        if option is None:
            raise ValueError(_unknown(table, whom, name))
        checked[name] = option.check(name, value)
    return checked


def _unknown(table: Table, whom: str, name: str) -> str:
    return f"Invalid option keyword {name} for {whom}.{hint(name, table)} Valid ones are {sorted(table)}."


def _finish_task(options: dict[str, Any]) -> dict[str, Any]:
    # A worker that used a GPU keeps memory on it, so by default it does not live on.
    if (options.get("num_gpus") or 0) > 0 and options.get("max_calls") is None:
        options["max_calls"] = 1
    return _finish_placement(options)


def _finish_placement(options: dict[str, Any]) -> dict[str, Any]:
    group = options.get("placement_group")
    has_group = group not in (None, "default")
    if has_group and options.get("scheduling_strategy") is not None:
        raise ValueError("Give a placement group in `scheduling_strategy` or in `placement_group`, not in both.")
    index = options.get("placement_group_bundle_index")
    if index is not None:
        check_bundle_index(group if has_group else None, index)
    return options
