"""Every public name of Ray's core is there, or says what to do instead."""

import importlib
import re
import subprocess
import sys

import pytest

import eagleray as ray

#: What Ray's reference documents of the core, and what programs import from beside it, by module.
NAMES = {
    "": """
        init shutdown is_initialized remote get put wait kill cancel method get_actor get_gpu_ids get_runtime_context
        nodes timeline cluster_resources available_resources client java_function java_actor_class cpp_function
        ObjectRef ObjectID ObjectRefGenerator DynamicObjectRefGenerator ActorID ActorClassID FunctionID JobID NodeID
        PlacementGroupID TaskID UniqueID WorkerID Language ClientBuilder LoggingConfig SCRIPT_MODE WORKER_MODE LOCAL_MODE
        __version__ actor util internal exceptions runtime_context runtime_env job_config cloudpickle experimental types
        cross_language remote_function _raylet _private
    """,
    "actor": "ActorClass ActorHandle ActorMethod ActorClassInheritanceException exit_actor method",
    "remote_function": "RemoteFunction",
    "types": "ObjectRef",
    "job_config": "JobConfig LoggingConfig",
    "runtime_env": "RuntimeEnv RuntimeEnvConfig",
    "runtime_context": "RuntimeContext get_runtime_context",
    "cross_language": "java_function java_actor_class cpp_function",
    "client_builder": "ClientBuilder client",
    "internal": "free",
    "cloudpickle": """
        dump dumps load loads dumps_debug CloudPickler Pickler PicklingError register_pickle_by_value
        unregister_pickle_by_value list_registry_pickle_by_value
    """,
    "exceptions": """
        ActorAlreadyExistsError ActorDiedError ActorHandleNotFoundError ActorPlacementGroupRemoved ActorUnavailableError
        ActorUnschedulableError AsyncioActorExit AuthenticationError CrossLanguageError GetTimeoutError
        LocalRayletDiedError NodeDiedError ObjectFetchTimedOutError ObjectFreedError ObjectLostError
        ObjectReconstructionFailedError ObjectRefStreamEndOfStreamError ObjectStoreFullError
        OufOfBandObjectRefSerializationException OutOfDiskError OutOfMemoryError OwnerDiedError
        PendingCallsLimitExceeded PlasmaObjectNotAvailable RayActorError RayCgraphCapacityExceeded RayChannelError
        RayChannelTimeoutError RayDirectTransportError RayError RaySystemError RayTaskError
        ReferenceCountingAssertionError RpcError RuntimeEnvSetupError StreamingGeneratorReplayInconsistentError
        TaskCancelledError TaskPlacementGroupRemoved TaskUnschedulableError UnserializableException UserCodeException
        WorkerCrashedError
    """,
    "util": """
        ActorPool accelerators as_completed connect deregister_serializer disable_log_once_globally disconnect
        enable_periodic_logging get_current_placement_group get_node_instance_id get_node_ip_address get_placement_group
        inspect_serializability iter list_named_actors log_once map_unordered pdb placement_group placement_group_table
        register_serializer remove_placement_group scheduling_strategies queue multiprocessing joblib metrics debug rpdb
        check_serialize serialization actor_pool helpers client_connect
    """,
    "util.actor_pool": "ActorPool",
    "util.accelerators": "NVIDIA_TESLA_V100 NVIDIA_TESLA_P100 NVIDIA_TESLA_T4 NVIDIA_A100 NVIDIA_H100 INTEL_GAUDI GOOGLE_TPU_V4",
    "util.check_serialize": "FailureTuple inspect_serializability",
    "util.debug": "log_once reset_log_once disable_log_once_globally enable_periodic_logging",
    "util.helpers": "as_completed map_unordered",
    "util.iter": "from_items from_range from_iterators from_actors",
    "util.joblib": "register_ray",
    "util.metrics": "Counter Gauge Histogram",
    "util.multiprocessing": "Pool TimeoutError JoinableQueue",
    "util.multiprocessing.pool": "Pool AsyncResult",
    "util.pdb": "set_trace",
    "util.placement_group": """
        PlacementGroup placement_group remove_placement_group get_placement_group placement_group_table
        get_current_placement_group
    """,
    "util.queue": "Queue Empty Full",
    "util.rpdb": "set_trace",
    "util.scheduling_strategies": """
        PlacementGroupSchedulingStrategy NodeAffinitySchedulingStrategy NodeLabelSchedulingStrategy In NotIn Exists
        DoesNotExist
    """,
    "util.serialization": "register_serializer deregister_serializer",
    "experimental": "get_object_locations get_local_object_locations set_resource tqdm_ray",
    "experimental.tqdm_ray": "tqdm safe_print",
    "experimental.internal_kv": """
        _internal_kv_get _internal_kv_put _internal_kv_del _internal_kv_list _internal_kv_exists _internal_kv_initialized
    """,
    "experimental.locations": "get_object_locations get_local_object_locations",
    "_raylet": """
        ObjectRef ObjectRefGenerator StreamingObjectRefGenerator DynamicObjectRefGenerator ObjectID ActorID ActorClassID
        FunctionID JobID NodeID PlacementGroupID TaskID UniqueID WorkerID BaseID Language
    """,
    "_private.internal_api": "memory_summary free global_gc",
    "_private.services": "get_node_ip_address get_node_instance_id",
    "_private.state": "nodes cluster_resources available_resources timeline",
    "_private.worker": "global_worker",
    "_private.ray_constants": "FUNCTION_SIZE_ERROR_THRESHOLD FUNCTION_SIZE_WARN_THRESHOLD RESOURCE_CONSTRAINT_PREFIX",
    "_private.utils": "get_num_cpus get_system_memory get_used_memory",
}

_CLASSES = {
    "ObjectRef": """
        hex binary is_nil task_id job_id future size nil from_random __await__ __hash__ __eq__
    """,
    "ObjectRefGenerator": "__iter__ __next__ __aiter__ __anext__ completed next_ready is_finished",
    "actor.ActorClass": "remote options bind",
    "actor.ActorMethod": "remote options bind",
    "remote_function.RemoteFunction": "options bind",
    "runtime_context.RuntimeContext": """
        get get_job_id get_node_id get_worker_id get_task_id get_actor_id get_actor_name get_task_name
        get_task_function_name get_placement_group_id get_session_name get_assigned_resources get_accelerator_ids
        get_node_labels get_resource_ids get_temp_dir get_runtime_env_string namespace current_actor was_current_actor_reconstructed
        should_capture_child_tasks_in_placement_group runtime_env gcs_address current_placement_group_id is_canceled
        job_id node_id task_id actor_id worker_id
    """,
    "runtime_env.RuntimeEnv": "env_vars to_dict get keys items",
    "job_config.JobConfig": "set_metadata set_runtime_env set_ray_namespace set_default_actor_lifetime",
    "util.placement_group.PlacementGroup": "ready wait bundle_specs bundle_count empty is_empty",
    "util.queue.Queue": """
        put get put_nowait get_nowait put_async get_async put_nowait_batch get_nowait_batch size qsize empty full shutdown
    """,
    "util.ActorPool": "submit get_next get_next_unordered map map_unordered has_next has_free pop_idle push",
    "util.multiprocessing.Pool": """
        apply apply_async map map_async starmap starmap_async imap imap_unordered close terminate join
    """,
    "exceptions.RayTaskError": "as_instanceof_cause make_dual_exception_instance",
}


def listed(table):
    return [(where, name) for where, names in table.items() for name in names.split()]


def found(path):
    """What stands at this path. `ray.util.placement_group` is a function, and a module too."""
    value = ray
    done = []
    for part in path.split(".") if path else []:
        done.append(part)
        value = sys.modules.get(".".join(["eagleray", *done]), None) or getattr(value, part)
    return value


@pytest.mark.parametrize(("where", "name"), listed(NAMES))
def test_X1a_the_name_is_there(where, name):
    assert getattr(found(where), name) is not None


@pytest.mark.parametrize(("where", "name"), listed(_CLASSES))
def test_X1a_the_method_is_there(where, name):
    assert hasattr(found(where), name)


def test_X1b_modules_are_attributes_after_an_import_of_the_package_alone():
    modules = [where for where in NAMES if where]
    program = "import eagleray as ray\n" + "".join(f"ray.{where}\n" for where in modules)
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("where", [where for where in NAMES if where and where != "util.pdb"])
def test_X1b_and_can_be_imported(where):
    importlib.import_module(f"eagleray.{where}")


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda: ray.timeline(), "profile workers"),
        (lambda: ray.client("auto"), "init(address="),
        (lambda: ray.ClientBuilder("auto"), "init(address="),
        (lambda: ray.java_function("A", "f"), "Python functions only"),
        (lambda: ray.java_actor_class("A"), "Python classes only"),
        (lambda: ray.cpp_function("f"), "Python extension"),
        (lambda: ray.util.connect("localhost:10001"), "init(address="),
        (lambda: ray.util.pdb.set_trace(), "local_mode=True"),
        (lambda: ray.util.iter.from_items([1]), "map_unordered"),
        (lambda: ray.experimental.set_resource("a", 1), "init(resources="),
        (lambda: ray.experimental.internal_kv._internal_kv_put(b"a", b"b"), "named actor"),
        (lambda: ray.remote(len).bind([1]), "bind"),
    ],
)
def test_X1c_what_cannot_be_done_says_what_to_do_instead(call, instead):
    with pytest.raises(NotImplementedError, match=re.escape(instead)):
        call()


@pytest.mark.parametrize(
    "part",
    [
        "serve",
        "dag",
        "workflow",
        "job_submission",
        "dashboard",
        "llm",
        "util.state",
        "util.collective",
        "util.dask",
        "util.spark",
        "experimental.channel",
    ],
)
def test_X1d_parts_of_ray_that_are_not_here_say_so(part):
    package, _, last = part.rpartition(".")
    with pytest.raises(
        AttributeError, match=rf"has no attribute '{last}': .*(not part of this version|removed|no separate)"
    ):
        getattr(found(package), last)
    assert not hasattr(found(package), last)
    program = f"import eagleray\neagleray.install_as_ray()\nimport ray.{part}"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert re.search(
        rf"ModuleNotFoundError: No module named 'ray.{part}': .*(not part|removed|no separate)", failed.stderr
    )
    assert failed.returncode == 1


def test_X1e_parameters_have_rays_names(no_session):
    import inspect

    def names(function):
        return list(inspect.signature(function).parameters)

    assert names(ray.cancel)[0] == "ray_waitable"
    assert names(ray.util.inspect_serializability)[0] == "base_obj"
    assert {"_owner", "_tensor_transport"} <= set(names(ray.put))
    ray.init(num_cpus=1)
    assert ray.get(ray.put(1, _owner=None)) == 1
    ray.shutdown(wait_for_processes=True)
    with pytest.raises(NotImplementedError, match="control groups"):
        ray.init(enable_resource_isolation=True)
    assert ray.job_config.JobConfig(jvm_options=["-X"], ray_namespace="a").ray_namespace == "a"
    with pytest.raises(TypeError, match="nothing"):
        ray.job_config.JobConfig(nothing=1)
