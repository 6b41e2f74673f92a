"""One driver's session: finds or hosts a node, joins it, prints what workers print, and cleans up."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import _native
from eagleray._common.settings import is_on
from eagleray._worker import actor_end

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRIVATE_OPTIONS = frozenset(
    {
        "_system_config",
        "_temp_dir",
        "_metrics_export_port",
        "_node_ip_address",
        "_driver_object_store_memory",
        "_memory",
        "_redis_username",
        "_redis_password",
        "_enable_object_reconstruction",
        "_node_name",
        "_tracing_startup_hook",
        "_plasma_directory",
        "_object_spilling_directory",
        "_labels",
        "_prestart",
        "_meminfo",
    }
)


class _Session:
    """What `init` made and `shutdown` has to undo."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.node: Any = None
        self.context: RayContext | None = None
        self.printer: Any = None
        self.number = 0
        #: Where tasks and actors run if that is here: see `_driver.local_mode`.
        self.local: Any = None
        #: The process of another program that hosts the session, if one does.
        self.host: int | None = None
        #: What this driver's workers find.
        self.surroundings: _native.Surroundings | None = None
        #: The process that has run sessions.
        self.pid: int | None = None
        self.auto_init_off = not is_on("ENABLE_AUTO_CONNECT", default=True)
        self.old_sigterm: Any = None


SESSION = _Session()


def record_sites_if_asked() -> None:
    """Record where refs are made if the environment asks for it."""
    if is_on("record_ref_creation_sites", default=False):
        from eagleray._cli.memory_report import site

        _native.record_sites(site)


class RayContext:
    """What `init` returns: where the session is. Also a context manager that shuts down."""

    def __init__(self, address_info: Mapping[str, Any]) -> None:
        """Keep the facts; they do not change while the session runs."""
        self.address_info = dict(address_info)
        self.dashboard_url = self.address_info.get("webui_url")
        self.python_version = "{}.{}.{}".format(*sys.version_info[:3])
        self.ray_version = _version()

    def __getitem__(self, key: str) -> Any:
        """Look up a fact by its name."""
        return self.address_info[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Look up a fact by its name, or the default."""
        return self.address_info.get(key, default)

    def __contains__(self, key: object) -> bool:
        """Tell whether there is such a fact."""
        return key in self.address_info

    def __enter__(self) -> RayContext:
        """Give the context itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Shut down."""
        self.disconnect()

    def disconnect(self) -> None:
        """Shut down."""
        shutdown()

    def __repr__(self) -> str:
        """Show the address."""
        return f"RayContext(address={self.address_info.get('address')!r})"


def _version() -> str:
    from eagleray import __version__

    return __version__


def check_out_of_band() -> None:
    """Refuse refs that leave by plain pickle, where the user asked for that."""
    if not is_on("allow_out_of_band_object_ref_serialization", default=True):
        from eagleray.exceptions import OufOfBandObjectRefSerializationException

        raise OufOfBandObjectRefSerializationException(
            "a ref was pickled outside of eagleray's own serialisation, and RAY_allow_out_of_band_object_ref_serialization=0"
        )


def auto_init() -> None:
    """Start a session because some API was used without one."""
    if SESSION.auto_init_off:
        from eagleray.exceptions import RaySystemError

        raise RaySystemError("Ray has not been started yet.")
    with SESSION.lock:
        # Of several threads one starts the session, and the others find it.
        if not _native.is_joined():
            init()


def _begin_anew() -> None:
    """Let this process, which was forked off one that has run sessions, run its own: not from within a session."""
    # Not whether this process has joined: after a fork it has not, whatever the parent was about.
    if _native.is_forked() or SESSION.node is not None:
        from eagleray.exceptions import RaySystemError

        # The runtime's threads are not here, and what they held is locked for ever.
        raise RaySystemError(
            "this process was forked from one that runs a session; call the API in the parent, shut the session down before the fork, "
            "or start this process by spawn"
        )
    # A thread of the parent may have held its lock.
    SESSION.__init__()  # type: ignore[misc]


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    object_spilling_directory: str | list[str] | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: Any = None,
    configure_logging: bool = True,
    logging_level: int = 20,
    logging_format: str | None = None,
    logging_config: Any = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    **private: Any,
) -> RayContext:
    """Start a session: host a node in this process, or join the one at `address`.

    An `address` of host and port is a cluster's: where no node of it runs on this machine, this process hosts one that has no resources.
    With `local_mode` tasks and actors run in this process, one after another, where debuggers work. `labels` are the node's.
    """
    if enable_resource_isolation or cgroup_path or system_reserved_cpu or system_reserved_memory:
        raise NotImplementedError(
            "processes are not set apart by control groups; start the program in one, for example by systemd-run, and give "
            "num_cpus and object_store_memory to leave room for others"
        )
    if proxy_server_url:
        raise NotImplementedError("there is no dashboard to be shown behind a proxy")
    unknown = [name for name in private if name not in _PRIVATE_OPTIONS]
    if unknown:
        raise RuntimeError(f"Unknown keyword argument(s): {', '.join(sorted(unknown))}")
    if SESSION.pid not in (None, os.getpid()):
        _begin_anew()
    with SESSION.lock:
        if _native.is_joined():
            if ignore_reinit_error:
                return SESSION.context or _context()
            raise RuntimeError(
                "Maybe you called ray.init twice by accident? This error can be suppressed by passing in "
                "'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'."
            )
        if SESSION.context is not None:
            shutdown()
        from eagleray._node import finding, hosting

        name_space = hosting.checked_namespace(namespace, job_config)
        temp_dir = private.get("_temp_dir")
        if temp_dir is not None and not os.path.isabs(temp_dir):
            raise ValueError("temp_dir must be an absolute path")
        if labels is not None:
            from eagleray._calls import labels as node_labels

            labels = node_labels.checked(labels)
        wants = hosting.Wants(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            resources=resources or {},
            object_store_memory=object_store_memory,
            memory=private.get("_memory"),
            temp_dir=temp_dir,
            prestart=0 if local_mode else private.get("_prestart"),
            object_spilling_directory=object_spilling_directory,
            system_config=private.get("_system_config") or {},
            meminfo=private.get("_meminfo"),
            labels=labels or {},
        )
        if log_to_driver is None:
            log_to_driver = is_on("LOG_TO_DRIVER", default=True)
        other = finding.find_node(address)
        SESSION.pid = os.getpid()
        if logging_config is not None:
            runtime_env = _with_logging(logging_config, runtime_env)
        surroundings = SESSION.surroundings = hosting.job_surroundings(job_config, runtime_env)
        SESSION.host = other.pid if isinstance(other, finding.Found) and other.is_of_program else None
        if other is None:
            SESSION.node = hosting.host_node(wants)
            _join(name_space, surroundings, logs=bool(log_to_driver))
            from eagleray._node import old_sessions

            old_sessions.sweep(hosting.base_dir() if temp_dir is None else Path(temp_dir))
        elif isinstance(other, finding.Found):
            hosting.refuse_resources(wants)
            _native.join_other(other.path, name_space, surroundings, bool(log_to_driver))
        else:
            hosting.refuse_resources(wants)
            from eagleray._node import guest

            SESSION.node = guest.host(wants, other)
            _join(name_space, surroundings, logs=bool(log_to_driver))
        SESSION.number += 1
        if surroundings.packages:
            from eagleray.runtime_env import packages

            packages.send_waiting()
        if local_mode:
            from eagleray._driver.local_mode import LocalActors

            SESSION.local = LocalActors(surroundings.env_vars)
        record_sites_if_asked()
        SESSION.context = _context()
        _watch_sigterm()
        if log_to_driver:
            from eagleray._driver.printer import Printer

            SESSION.printer = Printer(SESSION.context["session_dir"])
            SESSION.printer.start()
        return SESSION.context


def _join(name_space: str, surroundings: _native.Surroundings, *, logs: bool) -> None:
    """Join the node that this process hosts; if that cannot be, nothing of it is left."""
    from eagleray._node import hosting

    try:
        hosting.join(SESSION.node, name_space, surroundings, logs=logs)
    except BaseException:
        SESSION.node = None
        raise


def _with_logging(config: Any, runtime_env: dict[str, Any] | None) -> dict[str, Any]:
    """Configure this process's logging, and give the environment by which workers do the same."""
    import json

    from eagleray._common.logging_config import VARIABLE, LoggingConfig

    if not isinstance(config, LoggingConfig):
        raise TypeError(f"logging_config must be a LoggingConfig, not {type(config)}")
    config.apply()
    given = dict(runtime_env or {})
    return {**given, "env_vars": {**(given.get("env_vars") or {}), VARIABLE: json.dumps(config.to_dict())}}


def _context() -> RayContext:
    """Say where this process's session is; in a worker, that is its driver's."""
    from eagleray._node import facts

    identity = _native.identity()
    address = facts.head_of(identity["session_dir"]) or identity["address"] or f"local:{os.getpid()}"
    return RayContext(
        {
            "address": address,
            "node_id": identity["node_id"],
            "session_dir": identity["session_dir"],
            "gcs_address": address,
            "webui_url": None,
            "node_ip_address": facts.ip_of(identity["session_dir"]),
            "object_store_address": None,
            "raylet_socket_name": identity["address"] or None,
            "session_name": os.path.basename(identity["session_dir"]),
        }
    )


#: Exit handlers of these must run to their end: ours, and the one that writes out what was logged.
_NOT_BROKEN_OFF = (__name__, "logging")


def _watch_sigterm() -> None:
    """Make SIGTERM end the program by way of its exit handlers, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        return
    import signal

    driver = os.getpid()

    def on_sigterm(number: int, frame: Any) -> None:
        if os.getpid() != driver:
            # A child that the user's code forked: the session is not its to end.
            actor_end.die_of(number)
        where = _outermost(frame)
        if where in _NOT_BROKEN_OFF:
            return _hurry()
        if where == "threading":
            # The program's own code is over, and the interpreter waits for its threads: that ends here.
            _tell_no_exit()
        sys.exit(number)

    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
        SESSION.old_sigterm = signal.signal(signal.SIGTERM, on_sigterm)
        from eagleray._common import forks

        forks.guard(on_sigterm)


def _outermost(frame: Any) -> str:
    """Name the module of the outermost frame: the program's, or of what the interpreter calls behind the program's end."""
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals.get("__name__", "") if frame is not None else ""


def _tell_no_exit() -> None:
    """Keep the interpreter from telling of the next SystemExit that it ignores."""
    tell = sys.unraisablehook

    def hook(about: Any) -> None:
        sys.unraisablehook = tell
        if about.exc_type is not SystemExit:
            tell(about)

    sys.unraisablehook = hook


def _hurry() -> None:
    """Make the end of the program wait no longer for who reads its output."""
    if SESSION.printer is not None:
        SESSION.printer.hurry()


def at_exit() -> None:
    """Shut down; Ctrl-C only ends the wait for who reads our output: the program is ending already."""
    import signal

    _native.program_ends()
    is_main = threading.current_thread() is threading.main_thread()
    if not (_native.is_driver() and is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
        shutdown()
        return
    signal.signal(signal.SIGINT, lambda *_: _hurry())
    try:
        shutdown()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def shutdown(*, wait_for_processes: bool = True, _exiting_interpreter: bool = False) -> None:
    """End the session; what still runs is ended, refs and handles become invalid. Does nothing without a session.

    It returns when the session's processes are gone; `wait_for_processes` is taken for the sake of programs that say so.
    """
    del wait_for_processes, _exiting_interpreter
    if not _native.is_driver():
        if _native.is_joined():
            raise RuntimeError("shutdown() was called inside a task or actor; only the driver can end the session")
        return
    with SESSION.lock:
        # Not whether there is a context: an init that was interrupted may have joined and not come as far as that.
        if not _native.is_driver():
            return
        SESSION.context = None
        if SESSION.local is not None:
            SESSION.local.end()
            SESSION.local = None
        if SESSION.printer is not None:
            SESSION.printer.drain()
        _native.leave()
        if "eagleray._values.awaiting" in sys.modules:
            sys.modules["eagleray._values.awaiting"].session_ended()
        if SESSION.printer is not None:
            SESSION.printer.stop()
            SESSION.printer = None
        if SESSION.node is not None:
            problem = SESSION.node.stop()
            SESSION.node = None
            if problem:
                sys.stderr.write(f"eagleray: the node failed: {problem}\n")
        if SESSION.old_sigterm is not None and threading.current_thread() is threading.main_thread():
            import signal

            signal.signal(signal.SIGTERM, SESSION.old_sigterm)
            SESSION.old_sigterm = None


def is_initialized() -> bool:
    """Tell whether this process has a session."""
    return bool(_native.is_joined())


atexit.register(at_exit)
