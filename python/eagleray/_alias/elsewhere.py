"""Names of Ray's that eagleray has no part for: each says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

_LATER = "it is not part of this version"

#: Parts of Ray that are not here, and what to do instead.
_ABSENT = {
    "serve": f"{_LATER}; serve an actor's methods by a web framework of your choice",
    "data": f"{_LATER}; read and transform data in tasks, for example with ray.util.map_unordered",
    "dag": f"{_LATER}; pass the refs that tasks return on to other tasks",
    "workflow": "Ray has removed it too; keep results of tasks in files of your own",
    "job_submission": f"{_LATER}; run the program itself, for example by `eagleray run program.py`",
    "dashboard": f"{_LATER}; `eagleray status` and `eagleray memory` print what is going on",
    "llm": f"{_LATER}; run models in actors",
    "widgets": f"{_LATER}",
    "util.state": f"{_LATER}; `eagleray status`, `eagleray memory`, ray.nodes() and ray.util.list_named_actors() tell some of it",
    "util.collective": f"{_LATER}; exchange arrays by ray.put and refs, or by torch.distributed between actors",
    "util.dask": f"{_LATER}",
    "util.spark": f"{_LATER}",
    "util.tracing": f"{_LATER}",
    "util.tpu": f"{_LATER}; there are no TPUs here",
    "util.debugpy": f"{_LATER}; init(local_mode=True) runs everything in the driver's process, where debuggers work",
    "util.ray_debugpy": f"{_LATER}; init(local_mode=True) runs everything in the driver's process, where debuggers work",
    "experimental.channel": f"{_LATER}; pass values by refs",
    "experimental.collective": f"{_LATER}; exchange arrays by ray.put and refs",
    "experimental.compiled_dag_ref": f"{_LATER}; call the methods of actors",
    "experimental.rdt": f"{_LATER}; move tensors to the CPU and pass refs",
}


def advice(module: str) -> str | None:
    """Say what to do instead of using this module, `eagleray.x.y`; None if nothing is known of such a module."""
    name = module.partition(".")[2]
    while name:
        if name in _ABSENT:
            return _ABSENT[name]
        name = name.rpartition(".")[0]
    return None


def java_function(class_name: str, function_name: str) -> NoReturn:
    """Refuse: functions are Python's here."""
    raise NotImplementedError(
        f"eagleray runs Python functions only; {class_name}.{function_name} of Java cannot be called"
    )


def java_actor_class(class_name: str) -> NoReturn:
    """Refuse: classes are Python's here."""
    raise NotImplementedError(f"eagleray runs Python classes only; {class_name} of Java cannot be made an actor")


def cpp_function(function_name: str) -> NoReturn:
    """Refuse: functions are Python's here."""
    raise NotImplementedError(
        f"eagleray runs Python functions only; call {function_name} of C++ by a Python extension, for example one of pybind11"
    )


def client(address: str | None = None, **_options: Any) -> NoReturn:
    """Refuse: every driver is a full one."""
    raise NotImplementedError(
        f"there is no separate client; a driver joins a node by init(address={address or 'auto'!r})"
    )


class ClientBuilder:
    """Refuses: every driver is a full one."""

    def __init__(self, address: str | None = None, **_options: Any) -> None:
        """Say what to do instead."""
        client(address)
