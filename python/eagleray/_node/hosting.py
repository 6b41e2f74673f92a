"""Finds out what this machine offers, and hosts a node."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray._common.amounts import PARTS
from eagleray._common.settings import from_env
from eagleray._node import cgroups, old_sessions, spilling, tokens

if TYPE_CHECKING:
    from eagleray._node.membership import Membership

#: Each GPU of a node has a name of its own.
_GPUS_MAX = 4096
#: Where a node listens for programs of this machine, in the folder of its session.
SOCKET_NAME = "node.sock"


@dataclass
class Wants:
    """What the user asked of a node; what is None is counted."""

    num_cpus: float | None = None
    num_gpus: float | None = None
    resources: dict[str, float] = field(default_factory=dict)
    object_store_memory: int | None = None
    memory: int | None = None
    temp_dir: str | None = None
    prestart: int | None = None
    object_spilling_directory: str | list[str] | None = None
    system_config: dict[str, Any] = field(default_factory=dict)
    meminfo: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


def checked_namespace(namespace: str | None, job_config: Any) -> str:
    """Check the namespace; make one of our own if none was given."""
    if namespace is None and job_config is not None:
        namespace = getattr(job_config, "ray_namespace", None)
    if namespace is None:
        import uuid

        return str(uuid.uuid4())
    if not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')
    return namespace


def usable_cpus() -> int:
    """Count the cores that this process may use: affinity and cgroup limits, not what the machine has."""
    count = len(os.sched_getaffinity(0))
    quota = cgroups.cpus()
    if quota is not None:
        count = min(count, max(1, int(quota)))
    return max(1, count)


def usable_memory() -> int:
    """Count the bytes of memory that this process may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = cgroups.memory()
    return total if limit is None else min(total, limit)


def base_dir() -> Path:
    """Find the folder of this user's sessions; only the user can enter it."""
    given = from_env("TMPDIR")
    path = Path(given) if given else Path(tempfile.gettempdir()) / f"eagleray-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        what = "RAY_TMPDIR or EAGLERAY_TMPDIR" if given else "TMPDIR"
        text = f"the folder of sessions cannot be made: {error}. Another place can be given by {what}"
        raise OSError(error.errno, text) from None
    about = path.stat()
    if about.st_uid != os.getuid() or (about.st_mode & 0o077 and not given):
        raise PermissionError(f"{path} must belong to you and be closed to others (mode 0700)")
    return path


def new_session_dir(wants: Wants) -> Path:
    """Choose the folder of a session that this process is to host."""
    folder = Path(wants.temp_dir) if wants.temp_dir else base_dir()
    stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
    return folder / f"session_{stamp}_{os.getpid()}_{time.monotonic_ns() % 1_000_000:06d}"


def refuse_resources(wants: Wants) -> None:
    """Resources belong to the node that has them, not to a driver that joins it."""
    if wants.num_cpus is not None or wants.num_gpus is not None:
        raise ValueError("When connecting to an existing cluster, num_cpus and num_gpus must not be provided.")
    if wants.resources:
        raise ValueError("When connecting to an existing cluster, resources must not be provided.")
    if wants.object_store_memory is not None:
        raise ValueError("When connecting to an existing cluster, object_store_memory must not be provided.")
    if wants.labels:
        raise ValueError("labels are given to a node when it is started, not when it is joined")


def job_surroundings(job_config: Any, runtime_env: Any) -> _native.Surroundings:
    """Say where the driver imports from, for its workers, and what else they should find.

    A script's folder stands first among a driver's paths; under `-m` and in a shell the current folder stands there.
    """
    from eagleray._worker import surroundings

    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        raise FileNotFoundError(
            "the working directory of this program has been deleted, and workers start in it: call os.chdir() to one that exists before init()"
        ) from None
    folders = [path or cwd for path in sys.path]
    if job_config is None and runtime_env is None:
        return surroundings.of_driver(list(dict.fromkeys(folders)), {}, detaches_actors=False)
    from eagleray.job_config import JobConfig
    from eagleray.runtime_env import of_job

    if job_config is not None and not isinstance(job_config, JobConfig):
        raise TypeError(f"job_config must be a JobConfig, got {type(job_config)}")

    env = of_job(getattr(job_config, "runtime_env", None), runtime_env)
    folders = [*(getattr(job_config, "code_search_path", None) or []), *folders]
    detaches_actors = getattr(job_config, "default_actor_lifetime", None) == "detached"
    env_vars = env.env_vars()
    if env.get("working_dir") or env.get("py_modules"):
        from eagleray.runtime_env import packages

        env_vars |= packages.of_job(env)
    return surroundings.of_driver(list(dict.fromkeys(folders)), env_vars, detaches_actors=detaches_actors)


def node_resources(wants: Wants, membership: Membership | None = None) -> tuple[dict[str, int], list[str]]:
    """Count what the node has, in ten-thousandths; and the visible names of its GPUs."""
    from eagleray._calls import checking
    from eagleray._node import gpus

    if membership is not None and membership.is_guest:
        return {}, []
    for name in ("CPU", "GPU", "memory", "object_store_memory"):
        assert name not in wants.resources, (
            f"`{name}` cannot be a custom resource because it is one of the default resources "
            "(CPU, GPU, memory, object_store_memory)"
        )
    visible = gpus.visible_gpus()
    cpus = usable_cpus() if wants.num_cpus is None else wants.num_cpus
    gpu_count = len(visible) if wants.num_gpus is None else wants.num_gpus
    checking.task_options(num_cpus=cpus, num_gpus=gpu_count, memory=wants.memory, resources=wants.resources or None)
    amounts = {"CPU": round(cpus * PARTS), "GPU": round(gpu_count * PARTS)}
    if gpu_count and (kind := gpus.accelerator_type()):
        amounts[f"accelerator_type:{kind}"] = PARTS
    for name, amount in wants.resources.items():
        amounts[name] = round(amount * PARTS)
    amounts["memory"] = int(wants.memory if wants.memory is not None else usable_memory() * 0.7)
    if membership is None or membership.is_head:
        amounts["node:__internal_head__"] = PARTS
    amounts[f"node:{'127.0.0.1' if membership is None else membership.ip}"] = PARTS
    count = int(gpu_count)
    if count > _GPUS_MAX:
        raise ValueError(f"num_gpus={gpu_count} is more than a machine can have; at most {_GPUS_MAX} are counted")
    names = visible[:count] if count <= len(visible) else [str(index) for index in range(count)]
    return {name: amount for name, amount in amounts.items() if amount}, names


def join(node: Any, name_space: str, surroundings: _native.Surroundings, *, logs: bool) -> None:
    """Join the node that this process hosts; if that cannot be, nothing of it is left."""
    try:
        _native.join_local(node, name_space, surroundings, logs)
    except BaseException as error:
        node.stop()
        if (lack := _out_of_memory(error)) is not None:
            raise lack from error
        raise


def _out_of_memory(error: BaseException) -> MemoryError | None:
    """Say what to do if that is what the error is about."""
    if "Cannot allocate memory" not in str(error):
        return None
    return MemoryError("there is not enough memory for a session: pass a smaller object_store_memory to init()")


def _setting(given: dict[str, Any], name: str, default: float) -> float:
    """Look a setting up: in `_system_config`, then in the environment."""
    for value in (given.get(name), from_env(name)):
        if value in (None, ""):
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"the setting {name} must be a finite number, not {value!r}")
        return number
    return default


def _memory_watch(wants: Wants) -> tuple[float, int, int, str | None]:
    """Say how memory is watched: threshold, how often in ms, retries of killed tasks, and a file to read instead."""
    threshold = _setting(wants.system_config, "memory_usage_threshold", 0.95)
    if not 0 <= threshold <= 1:
        raise ValueError(f"memory_usage_threshold must be between 0 and 1, got {threshold}")
    refresh_ms = max(0, int(_setting(wants.system_config, "memory_monitor_refresh_ms", 250)))
    return threshold, refresh_ms, int(_setting(wants.system_config, "task_oom_retries", -1)), wants.meminfo


def host_node(
    wants: Wants, *, session_dir: Path | None = None, membership: Membership | None = None, keep_session: bool = False
) -> Any:
    """Start a node in this process. Without a `membership` it is alone."""
    if sys.platform != "linux":
        raise RuntimeError("eagleray runs on Linux only")
    amounts, gpu_names = node_resources(wants, membership)
    store = wants.object_store_memory
    if store is None:
        store = min(int(usable_memory() * 0.3), 200 * 2**30)
    if type(store) is not int or store < 1 << 20:
        raise ValueError(f"object_store_memory must be a whole number of bytes, at least 1 MiB, got {store!r}")
    if store > (whole := usable_memory()):
        raise MemoryError(
            f"object_store_memory={store} ({store / 2**30:.1f} GiB) is more than the memory of this machine: {whole} bytes ({whole / 2**30:.1f} GiB)"
        )
    spill_folders = spilling.checked_folders(wants.object_spilling_directory, wants.system_config)
    spill_limit = spilling.checked_limit(wants.system_config)
    session_dir = session_dir or new_session_dir(wants)
    cores = usable_cpus()
    prestart = min(cores, max(1, amounts.get("CPU", 0) // PARTS)) if wants.prestart is None else wants.prestart
    try:
        # In here: Ctrl-C may come behind any line.
        session_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not keep_session:
            old_sessions.mark_passing(session_dir)
        from eagleray._calls import labels

        own_labels = labels.found(amounts) | wants.labels
        if own_labels:
            labels.write(own_labels, str(session_dir))
        if membership is not None:
            membership.labels = list(own_labels.items())
        return _native.Node(
            resources=amounts,
            gpu_names=gpu_names,
            store_bytes=store,
            folders=spilling.make_folders(spill_folders, session_dir),
            folders_full_at=spill_limit,
            cores=cores,
            zygote=[
                sys.executable,
                *_interpreter_flags(),
                "-c",
                _ZYGOTE,
                str(os.getpid()),
                str(session_dir),
                str(int(keep_session)),
                *_zygote_paths(),
            ],
            zygote_env=[("EAGLERAY_ZYGOTE", "1"), *tokens.hidden(os.environ)],
            session_dir=str(session_dir),
            listen=str(session_dir / SOCKET_NAME),
            must_listen=keep_session,
            prestart=prestart,
            idle_ms_max=max(0, int(_setting(wants.system_config, "idle_worker_killing_time_threshold_ms", 60_000))),
            workers_max=int(from_env("WORKERS_MAX") or 4096),
            rings_max=int(from_env("RINGS_MAX") or 4096 * 4096),
            link_idle_ms_max=int(from_env("LINK_IDLE_MS_MAX") or 60_000),
            grace_ms_max=int(_setting(wants.system_config, "actor_graceful_shutdown_timeout_ms", 30_000)),
            lineage_bytes_max=max(0, int(_setting(wants.system_config, "max_lineage_bytes", 1 << 30))),
            memory=_memory_watch(wants),
            keep_session=keep_session,
            cluster=membership,
        )
    except BaseException as error:
        import shutil

        shutil.rmtree(session_dir, ignore_errors=True)
        if (lack := _out_of_memory(error)) is not None:
            raise lack from error
        raise


# `site` runs there as in any Python of this environment; then what it found gives way to what this process imports from.
#
# It leaves the program's process group before anything else: who kills that group kills whoever would clean up, and a terminal's Ctrl-C is
# the program's to handle.
_ZYGOTE = "import os, sys; os.setsid(); sys.path[:] = sys.argv[4:]; from eagleray._node.zygote import main; main(sys.argv[1:4])"


def _interpreter_flags() -> list[str]:
    """Start the launcher as this process was: apart from the environment, from the user's own packages, or without `site`."""
    flags = sys.flags
    if flags.isolated:
        return ["-I", *(["-S"] if flags.no_site else [])]
    given = {"-E": flags.ignore_environment, "-s": flags.no_user_site, "-P": flags.safe_path, "-S": flags.no_site}
    return [flag for flag, is_given in given.items() if is_given]


def _zygote_paths() -> list[str]:
    # Whether `ray` is eagleray is each job's own affair.
    install = sys.modules.get("eagleray._alias.install")
    return [path for path in sys.path if path and (install is None or path != install.STAND_IN)]
