"""eagleray: functions, classes and data of a Python program on all cores of a machine, with Ray's API and a core in Rust."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from eagleray._common.old_names import OldNames
from eagleray._common.submodules import loader
from eagleray._common.version import VERSION
from eagleray._driver.session import init, is_initialized, shutdown
from eagleray._native import ObjectRef, ObjectRefGenerator, get, put, wait

__version__ = VERSION
#: Of which commit Ray was built; eagleray is known by its version.
__commit__ = f"eagleray-{VERSION}"

ObjectID = ObjectRef

sys.meta_path.append(OldNames)

# Names that are looked up when first used, so that `import eagleray` stays fast.
_LAZY = {
    "method": "eagleray.actor",
    "kill": "eagleray.actor",
    "get_actor": "eagleray.actor",
    "ActorID": "eagleray._values.ids",
    "NodeID": "eagleray._values.ids",
    "TaskID": "eagleray._values.ids",
    "JobID": "eagleray._values.ids",
    "WorkerID": "eagleray._values.ids",
    "UniqueID": "eagleray._values.ids",
    "FunctionID": "eagleray._values.ids",
    "ActorClassID": "eagleray._values.ids",
    "PlacementGroupID": "eagleray._values.ids",
    "Language": "eagleray._values.ids",
    "DynamicObjectRefGenerator": "eagleray._values.generators",
    "cancel": "eagleray._calls.cancelling",
    "get_gpu_ids": "eagleray.runtime_context",
    "get_runtime_context": "eagleray.runtime_context",
    "nodes": "eagleray._driver.cluster",
    "cluster_resources": "eagleray._driver.cluster",
    "available_resources": "eagleray._driver.cluster",
    "timeline": "eagleray._driver.cluster",
    "LoggingConfig": "eagleray._common.logging_config",
    "logger": "eagleray._common.logging_config",
    "install_as_ray": "eagleray._alias.install",
    "java_function": "eagleray._alias.elsewhere",
    "java_actor_class": "eagleray._alias.elsewhere",
    "cpp_function": "eagleray._alias.elsewhere",
    "client": "eagleray._alias.elsewhere",
    "ClientBuilder": "eagleray._alias.elsewhere",
}

#: What a process is, as programs compare it.
SCRIPT_MODE = 0
WORKER_MODE = 1
LOCAL_MODE = 2

_submodule = loader(__name__)

__all__ = [
    "LOCAL_MODE",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "ActorClassID",
    "ActorID",
    "ClientBuilder",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "Language",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "available_resources",
    "cancel",
    "client",
    "cluster_resources",
    "cpp_function",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "install_as_ray",
    "is_initialized",
    "java_actor_class",
    "java_function",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "wait",
]


def remote(*args: Any, **options: Any) -> Any:
    """Make a function a task, or a class an actor: `@remote` or `@remote(num_cpus=2, ...)`."""
    if len(args) == 1 and not options and (callable(args[0]) or isinstance(args[0], type)):
        return _make_remote(args[0], {})
    if args or not options:
        raise TypeError(
            "The @ray.remote decorator must be applied either with no arguments and no parentheses, for example '@ray.remote', "
            "or it must be applied using some of the arguments, for example '@ray.remote(num_returns=2, resources={\"x\": 1})'."
        )
    return lambda target: _make_remote(target, options)


def _make_remote(target: Any, options: dict[str, Any]) -> Any:
    from eagleray._calls import checking

    if isinstance(target, type):
        from eagleray.actor import ActorClass

        return ActorClass(target, checking.actor_options(**options))
    if not callable(target) or hasattr(target, "_default_options"):
        raise TypeError("The @ray.remote decorator must be applied to either a function or to a class.")
    from eagleray.remote_function import RemoteFunction

    return RemoteFunction(target, checking.task_options(**options))


def __getattr__(name: str) -> Any:
    """Find lazily loaded names and subpackages."""
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    return _submodule(name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
