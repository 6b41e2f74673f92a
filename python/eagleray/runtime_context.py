"""Where the running code is: job, node, task, actor."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from eagleray import _native
from eagleray._common.amounts import all_shown


def get_gpu_ids() -> list[Any]:
    """List the GPUs assigned to the running task or actor."""
    names = _native.identity()["gpus"]
    return [int(name) if name.isdigit() else name for name in names]


def get_runtime_context() -> RuntimeContext:
    """Give the context of the code that calls this."""
    _native.ensure_started()
    return RuntimeContext()


class RuntimeContext:
    """Facts about the running code. Each is looked up when asked for."""

    def get(self) -> dict[str, Any]:
        """Give all ids at once."""
        context: dict[str, Any] = {
            "job_id": self.get_job_id(),
            "node_id": self.get_node_id(),
            "namespace": self.namespace,
        }
        if self.get_task_id() is not None:
            context["task_id"] = self.get_task_id()
        if self.get_actor_id() is not None:
            context["actor_id"] = self.get_actor_id()
        return context

    def get_job_id(self) -> str:
        """Give the job's id in hex."""
        return str(_native.identity()["job_id"])

    def get_node_id(self) -> str:
        """Give the node's id in hex."""
        return str(_native.identity()["node_id"])

    def get_worker_id(self) -> str:
        """Give the process's id in hex."""
        return str(_native.identity()["worker_id"])

    def get_task_id(self) -> str | None:
        """Give the running task's id in hex; None in a driver."""
        from eagleray._worker import async_context

        task: str | None = async_context.current_task_id() or _native.identity()["task_id"]
        return task

    def get_actor_id(self) -> str | None:
        """Give the running actor's id in hex; None outside of actors."""
        worker = _worker()
        return None if worker is None or worker.actor_id is None else worker.actor_id.hex()

    def get_actor_name(self) -> str | None:
        """Give the running actor's name; None outside of actors, "" for one without a name."""
        worker = _worker()
        return None if worker is None or worker.actor_id is None else str(worker.about["name"])

    def get_task_name(self) -> str | None:
        """Give the running task's name."""
        from eagleray._worker import async_context

        if self.get_task_id() is None:
            return None
        names = _native.current_names()
        return async_context.NAME.get() or (names[0] if names is not None else _native.current_label())

    def get_task_function_name(self) -> str | None:
        """Give the running function's name with its module and class: `module.function`, `module.Class.method`."""
        worker = _worker()
        if worker is None:
            return _local_function()
        name: str | None = worker.function_name()
        return name

    def get_temp_dir(self) -> str:
        """Give the folder in which sessions have theirs."""
        return str(_native.identity()["session_dir"]).rpartition("/")[0]

    def get_resource_ids(self) -> dict[str, list[str]]:
        """List assigned accelerators by kind."""
        return self.get_accelerator_ids()

    def get_placement_group_id(self) -> str | None:
        """Give the placement group that the running task or actor is in, in hex; None outside of groups."""
        group: str | None = _native.identity()["placement_group_id"]
        return group

    def get_session_name(self) -> str:
        """Give the session's name."""
        return str(_native.identity()["session_dir"]).rpartition("/")[2]

    def get_assigned_resources(self) -> dict[str, float]:
        """Say what the running task or actor holds."""
        return all_shown(_native.identity()["resources"])

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """List assigned accelerators by kind."""
        return {"GPU": list(_native.identity()["gpus"])}

    def get_node_labels(self) -> dict[str, str]:
        """Give the node's labels."""
        from eagleray._calls.labels import of_node

        return of_node()

    def get_runtime_env_string(self) -> str:
        """Give the runtime environment that the running task or actor was given, as JSON."""
        import json

        from eagleray._worker.surroundings import of_job

        job, own = of_job(), _native.identity()
        env: dict[str, Any] = {}
        if packages := {**job.packages, **own["packages"]}:
            from eagleray.runtime_env.packages import as_fields

            env = as_fields(packages)
        if env_vars := {**job.env_vars, **own["env_vars"]}:
            env["env_vars"] = env_vars
        return json.dumps(env)

    @property
    def namespace(self) -> str:
        """The namespace of actors' names."""
        return str(_native.identity()["namespace"])

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the running actor was restarted."""
        worker = _worker()
        if worker is None or worker.actor_id is None:
            raise RuntimeError("was_current_actor_reconstructed is only available in actors")
        return int(worker.about["incarnation"]) > 0

    @property
    def current_actor(self) -> Any:
        """A weak handle on the running actor."""
        worker = _worker()
        if worker is None or worker.actor_id is None:
            raise RuntimeError("This method is only available in an actor.")
        from eagleray._calls.actor_meta import unpacked
        from eagleray.actor import ActorHandle

        if hasattr(worker, "handle"):
            return worker.handle()
        return ActorHandle(worker.actor_id, unpacked(worker.about["meta"]), None)

    def is_canceled(self) -> bool:
        """Tell whether the running task was cancelled."""
        worker = _worker()
        if worker is not None and worker.about.get("is_async"):
            raise RuntimeError("This method is not supported in an async actor.")
        return bool(_native.is_cancelled())

    @property
    def runtime_env(self) -> Any:
        """The runtime environment that the running task or actor was given."""
        import json

        from eagleray.runtime_env import RuntimeEnv

        return RuntimeEnv(**json.loads(self.get_runtime_env_string()))

    @property
    def gcs_address(self) -> str:
        """Where the cluster can be joined; of a node that is alone, where that can."""
        from eagleray._node import facts

        identity = _native.identity()
        return facts.head_of(identity["session_dir"]) or str(identity["address"])

    @property
    def current_placement_group_id(self) -> Any:
        """The placement group that the running task or actor is in; nil outside of groups."""
        from eagleray._values.ids import PlacementGroupID

        group = self.get_placement_group_id()
        return PlacementGroupID.nil() if group is None else PlacementGroupID.from_hex(group)

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what is started here goes into the same placement group."""
        return bool(_native.identity()["captures"])

    def _deprecated(self, name: str) -> Any:
        warnings.warn(f"Use get_{name}() instead", DeprecationWarning, stacklevel=3)
        return getattr(self, f"get_{name}")()

    job_id = property(lambda self: self._deprecated("job_id"))
    node_id = property(lambda self: self._deprecated("node_id"))
    task_id = property(lambda self: self._deprecated("task_id"))
    actor_id = property(lambda self: self._deprecated("actor_id"))
    worker_id = property(lambda self: self._deprecated("worker_id"))


def _worker() -> Any:
    from eagleray._worker import process as worker_module

    if worker_module.WORKER is None and "eagleray._driver.local_mode" in sys.modules:
        return sys.modules["eagleray._driver.local_mode"].CURRENT.get()
    return worker_module.WORKER


def _local_function() -> str | None:
    """Name the function that runs in local mode."""
    calls = sys.modules.get("eagleray._driver.local_calls")
    function = None if calls is None else calls.FUNCTION.get()
    if function is None:
        return None
    from eagleray._worker.process import full_name

    return full_name(function)
