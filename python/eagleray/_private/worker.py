"""What becomes of an error that nobody read, and what programs ask of the process that they run in."""

from __future__ import annotations

import sys
from typing import Any

from eagleray._common.settings import is_on


class _GlobalWorker:
    """This process, as far as programs ask about it."""

    @property
    def connected(self) -> bool:
        """Whether it has joined a node."""
        from eagleray import _native

        return bool(_native.is_joined())

    @property
    def mode(self) -> int | None:
        """SCRIPT_MODE, WORKER_MODE or LOCAL_MODE; None before `init`."""
        import eagleray
        from eagleray import _native
        from eagleray._driver.session import SESSION

        if not _native.is_joined():
            return None
        if SESSION.local is not None:
            return eagleray.LOCAL_MODE
        return eagleray.SCRIPT_MODE if _native.is_driver() else eagleray.WORKER_MODE

    @property
    def node_ip_address(self) -> str:
        """The node's address."""
        from eagleray._driver.cluster import get_node_ip_address

        return get_node_ip_address()

    @property
    def current_job_id(self) -> Any:
        """The job that this process runs."""
        from eagleray import _native
        from eagleray._values.ids import JobID

        return JobID.from_hex(_native.identity()["job_id"])

    @property
    def worker_id(self) -> bytes:
        """This process's id."""
        from eagleray import _native

        return bytes.fromhex(_native.identity()["worker_id"])

    @property
    def node(self) -> Any:
        """The node that it has joined; None before `init`."""
        return _Node() if self.connected else None

    @property
    def core_worker(self) -> Any:
        """Refuse: it is native code of Ray's."""
        raise NotImplementedError(
            "there is no core worker; ids are in ray.get_runtime_context(), refs' owners and places in ray.experimental.get_object_locations()"
        )


class _Node:
    """The node of this process's session, as far as programs ask about it."""

    def __init__(self) -> None:
        from eagleray import _native

        identity = _native.identity()
        self.unique_id: str = identity["node_id"]
        self.session_dir: str = identity["session_dir"]

    def get_session_dir_path(self) -> str:
        """Give the folder of the session."""
        return self.session_dir

    def get_logs_dir_path(self) -> str:
        """Give the folder of what workers print."""
        return f"{self.session_dir}/logs"

    @property
    def node_ip_address(self) -> str:
        """The node's address."""
        from eagleray._driver.cluster import get_node_ip_address

        return get_node_ip_address()


global_worker = _GlobalWorker()


def __getattr__(name: str) -> Any:
    if name == "_global_node":
        return global_worker.node
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _print_unhandled(error: BaseException) -> None:
    sys.stderr.write(f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {error}\n")
    sys.stderr.flush()


#: Called once for each error of a task whose last ref went and that nobody had read. Programs may put their own function here.
_unhandled_error_handler = _print_unhandled


def report_unhandled(error: BaseException) -> None:
    """Hand an error that nobody read to the handler, unless the environment says that nobody wants to hear of such."""
    if not is_on("IGNORE_UNHANDLED_ERRORS", default=False):
        _unhandled_error_handler(error)
