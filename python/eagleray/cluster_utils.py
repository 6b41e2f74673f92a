"""A cluster on this machine, for tests: every node is a process of its own, with a folder, a port and workers of its own.

    cluster = Cluster()
    cluster.add_node(num_cpus=0)
    away = cluster.add_node(num_cpus=2, resources={"licence": 1})
    eagleray.init(address=cluster.address)
    ...
    cluster.remove_node(away, allow_graceful=False)   # as if its machine had lost power

Names and arguments are Ray's. Nodes end with the program, also if that is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import eagleray
from eagleray._node import facts, hosting
from eagleray._node.process import NodeProcess

__all__ = ["Cluster", "NodeProcess"]

#: Of the folder of a cluster: a socket's path has 107 characters, and what a node puts below takes some sixty.
_FOLDER_LENGTH_MAX = 40
#: How long the head may take to answer.
_POLL_SECONDS = 0.01


class Cluster:
    """Nodes on this machine that work as if each had a machine to itself.

    Attributes:
        head_node: the first node; it leads the others.
        worker_nodes: the other ones.
        connected: whether `connect` was called.
    """

    def __init__(
        self,
        initialize_head: bool = False,  # noqa: FBT001, FBT002
        connect: bool = False,  # noqa: FBT001, FBT002
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Start the head, and a session with it, if that is asked for.

        Args:
            initialize_head: start the first node at once.
            connect: also call `init` with the cluster's address.
            head_node_args: arguments of `add_node` for the head.
            shutdown_at_exit: end the nodes with this program; else they go on until `eagleray stop`.
        """
        self.head_node: NodeProcess | None = None
        self.worker_nodes: set[NodeProcess] = set()
        self.connected = False
        self._ends_with_program = shutdown_at_exit
        self._folder: Path | None = None
        self._added = 0
        self._pid = os.getpid()
        if connect and not initialize_head:
            raise RuntimeError("Cannot connect to uninitialized cluster.")
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    @property
    def address(self) -> str | None:
        """Where programs and further nodes find the cluster, as host:port; None without a head."""
        return None if self.head_node is None else self.head_node.address

    @property
    def gcs_address(self) -> str | None:
        """The same."""
        return self.address

    def connect(self, namespace: str | None = None) -> None:
        """Start a session of this program on the head node."""
        if self.address is None:
            raise RuntimeError("Cannot connect to uninitialized cluster.")
        if self.connected:
            raise RuntimeError("this cluster's connect() has been called already")
        eagleray.init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True

    def add_node(self, wait: bool = True, **node_args: Any) -> NodeProcess:  # noqa: FBT001, FBT002
        """Start a node; the first one is the head.

        Args:
            wait: until it is part of the cluster. The head is always waited for.
            **node_args: num_cpus (1), num_gpus (0), resources, labels, object_store_memory (150 MiB), memory, env_vars,
                object_spilling_directory, _system_config, node_ip_address, node_name.
        """
        if self._folder is None:
            self._folder = _make_folder()
            if self._ends_with_program:
                atexit.register(self._at_exit)
        head = self.head_node
        if head is not None:
            head.wait()
        self._added += 1
        node = NodeProcess(self._folder / f"n{self._added}", node_args, head, is_tied=self._ends_with_program)
        if head is None:
            try:
                node.wait()
            except BaseException:
                node.end(gently=False)
                raise
            self.head_node = node
            return node
        self.worker_nodes.add(node)
        if wait:
            try:
                node.wait()
                self._wait_until(lambda: node.node_id in self._alive(), 30.0, f"node {node.node_id} to be known")
            except BaseException:
                self.worker_nodes.discard(node)
                node.end(gently=False)
                raise
        return node

    def remove_node(self, node: NodeProcess, allow_graceful: bool = True) -> None:  # noqa: FBT001, FBT002
        """End a node and all that runs on it; what was stored there is lost.

        Args:
            node: one that `add_node` has returned.
            allow_graceful: let it say that it leaves; else its process is killed, and the others have to find out.
        """
        if _is_of_session(node):
            eagleray.shutdown()
            raise ValueError(
                "Removing a node that is connected to this Ray client is not allowed because it will break the driver: its session was "
                "ended instead; remove another node, or call shutdown() first"
            )
        if node is not self.head_node and node not in self.worker_nodes:
            raise ValueError(f"{node} is not, or no longer, a node of this cluster")
        node.end(gently=allow_graceful)
        if node is self.head_node:
            self.head_node = None
        else:
            self.worker_nodes.remove(node)

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until as many nodes live as were added and not removed; TimeoutError says how many do."""
        until = time.monotonic() + timeout
        for node in self.list_all_nodes():
            node.wait(max(0.0, until - time.monotonic()))
        wanted = len(self.list_all_nodes())
        if wanted:
            self._wait_until(
                lambda: len(self._alive()) == wanted, until - time.monotonic(), f"{wanted} nodes to be alive"
            )

    def list_all_nodes(self) -> list[NodeProcess]:
        """List the nodes, the head first."""
        others = sorted(self.worker_nodes, key=lambda node: node.number)
        return others if self.head_node is None else [self.head_node, *others]

    def remaining_processes_alive(self) -> bool:
        """Tell whether all nodes' processes live that nobody has removed."""
        return all(node.is_alive() for node in self.list_all_nodes())

    def shutdown(self) -> None:
        """End this program's session if it is one of this cluster's, then all nodes; their folders go."""
        if self._pid != os.getpid():
            return  # a fork of the program
        nodes = self.list_all_nodes()
        if any(_is_of_session(node) for node in nodes) or (self.connected and eagleray.is_initialized()):
            eagleray.shutdown()
        self.connected = False
        for node in reversed(nodes):
            node.ask_to_end()
        for node in reversed(nodes):
            node.end(gently=True)
        self.head_node, self.worker_nodes = None, set()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            facts.tidy(hosting.base_dir())
            atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        self.shutdown()

    def _alive(self) -> set[str]:
        """The ids of the nodes that the head takes to be alive."""
        if self.head_node is None:
            raise RuntimeError("this cluster has no head: its first node was removed")
        return self.head_node.nodes_alive()

    def _wait_until(self, is_true: Any, seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not is_true():
            gone = [node for node in self.list_all_nodes() if not node.is_alive()]
            if time.monotonic() > until:
                ended = f"; {', '.join(map(str, gone))} ended by itself" if gone else ""
                raise TimeoutError(f"waited {seconds:.0f} s for {what}: {len(self._alive())} are alive{ended}")
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Cluster:
        """Give the cluster itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Shut down."""
        self.shutdown()


def _make_folder() -> Path:
    """Make a folder for the nodes' folders, with a short path."""
    folder = tempfile.mkdtemp(prefix="er-")
    if len(folder) > _FOLDER_LENGTH_MAX:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="er-", dir="/tmp")
    return Path(folder)


def _is_of_session(node: NodeProcess) -> bool:
    """Tell whether this program's session is joined to this very node."""
    from eagleray import _native

    return bool(eagleray.is_initialized()) and bool(_native.identity()["node_id"] == node.node_id)
