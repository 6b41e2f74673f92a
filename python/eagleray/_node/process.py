"""One node of a cluster of `cluster_utils`: its process, seen from the program that started it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from eagleray._node import finding, old_sessions

if TYPE_CHECKING:
    from pathlib import Path

#: How long a node may take until it is ready.
READY_SECONDS_MAX = 30.0
#: How long a node that was asked to end may take, and how long those may that a killed one leaves behind.
_END_SECONDS_MAX = 15.0
_POLL_SECONDS = 0.005
_LOG_CHARACTERS_MAX = 4000

#: What a node has if nothing else is said.
_DEFAULTS: dict[str, Any] = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 150 * 2**20}
#: Arguments that stand on the command line as they are.
_PLAIN = ("num_cpus", "num_gpus", "object_store_memory", "memory", "node_ip_address", "node_name", "port")
#: Names of Ray's that concern parts which a node here does not have.
_WITHOUT_EFFECT = frozenset(
    {
        "dashboard_agent_listen_port", "dashboard_host", "dashboard_port", "include_dashboard", "include_log_monitor", "max_worker_port",
        "metrics_export_port", "min_worker_port", "node_manager_port", "object_manager_port", "plasma_directory", "raylet_socket_name",
        "redirect_output", "redis_port", "plasma_store_socket_name", "enable_object_reconstruction", "ray_client_server_port",
    }
)  # fmt: skip


class NodeProcess:
    """A node in a process of its own.

    Attributes:
        number: counts the nodes of a cluster from 1.
        folder: where its sessions lie, and the log of its process.
        pid: of its process.
    """

    def __init__(self, folder: Path, node_args: dict[str, Any], head: NodeProcess | None, *, is_tied: bool) -> None:
        """Start the process; `head` is the node to join, None starts a cluster. `is_tied`: it ends with this program."""
        command, more = _command(node_args)
        folder.mkdir(mode=0o700)
        self.folder = folder
        self.number = int(folder.name.lstrip("n"))
        self._ready_file = folder / "ready.json"
        self._about: dict[str, Any] = {}
        self._ended: list[int] = []
        # A port that is free: several clusters may run at once.
        place = (
            ["--address", head.address]
            if head is not None
            else ["--head", *([] if "port" in node_args else ["--port", "0"])]
        )
        environ = {**os.environ, **more}
        # What the user's own cluster is known by means nothing to this one.
        for name in (
            "RAY_ADDRESS",
            "EAGLERAY_ADDRESS",
            "EAGLERAY_TOKEN",
            "RAY_TOKEN_FILE",
            "EAGLERAY_TOKEN_FILE",
        ):
            environ.pop(name, None)
        if head is not None:
            environ["EAGLERAY_TOKEN_FILE"] = head.token_file
        files = ["--ready-file", str(self._ready_file), "--temp-dir", str(folder)]
        start = ["start", *place, "--block", *files, *command]
        tie = ["-m", "eagleray._node.tied", str(os.getpid()), str(folder)] if is_tied else ["-m", "eagleray"]
        with (folder / "node.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, *tie, *start],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                # Ctrl-C at the program's terminal is the program's to handle.
                start_new_session=True,
            )
        self.pid = self._process.pid

    def wait(self, seconds: float = READY_SECONDS_MAX) -> None:
        """Wait until the node is ready, which for one that joins means that the cluster has let it in."""
        until = time.monotonic() + seconds
        while not self._about:
            # Looked at before the file: a node may get ready and end in between.
            code = self._process.poll()
            try:
                self._about = json.loads(self._ready_file.read_text())
                return
            except FileNotFoundError:
                pass
            if code is not None:
                raise RuntimeError(
                    f"the node ended with {_shown_code(code)} before it was ready; it said:\n{self.log()}"
                )
            if time.monotonic() > until:
                raise TimeoutError(
                    f"the node (pid {self.pid}) is not ready after {seconds:.0f} s; it said:\n{self.log()}"
                )
            time.sleep(_POLL_SECONDS)

    def log(self) -> str:
        """Read the end of what the node's process has printed."""
        return (self.folder / "node.log").read_text(errors="replace")[-_LOG_CHARACTERS_MAX:]

    def _fact(self, name: str) -> str:
        self.wait()
        return str(self._about[name])

    @property
    def address(self) -> str:
        """Where other nodes find it: host:port."""
        return self._fact("address")

    @property
    def gcs_address(self) -> str:
        """The same."""
        return self.address

    @property
    def node_ip_address(self) -> str:
        """The first half of the address."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def node_id(self) -> str:
        """Its id in hex, as `nodes()` tells it."""
        return self._fact("node_id")

    @property
    def unique_id(self) -> str:
        """The same."""
        return self.node_id

    @property
    def socket(self) -> str:
        """Where programs on this machine join it."""
        return self._fact("socket")

    @property
    def raylet_socket_name(self) -> str:
        """The same."""
        return self.socket

    @property
    def session_dir(self) -> str:
        """The folder of its session."""
        return self._fact("session_dir")

    def get_session_dir_path(self) -> str:
        """Give the folder of its session."""
        return self.session_dir

    @property
    def token_file(self) -> str:
        """Where the secret lies by which further nodes may join."""
        return self._fact("token_file")

    def status(self) -> dict[str, Any]:
        """Ask the node what `eagleray status --json` shows."""
        return finding.ask(self.socket, "status")

    def nodes_alive(self) -> set[str]:
        """Give the ids of the nodes that this one takes to be alive; those of drivers are none."""
        return {node["node_id"] for node in self.status()["nodes"] if node["alive"] and not node["is_guest"]}

    def is_alive(self) -> bool:
        """Tell whether its process runs."""
        return self._process.poll() is None

    def any_processes_alive(self) -> bool:
        """The same."""
        return self.is_alive()

    def remaining_processes_alive(self) -> bool:
        """The same."""
        return self.is_alive()

    def kill_raylet(self, *_: Any, **__: Any) -> None:
        """Kill its process, and so all that it has started; the cluster does not know that this was meant."""
        self.end(gently=False)

    def pause(self) -> None:
        """Stop its process without ending it; its workers go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let its process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Ask it to leave; `end` waits for that."""
        if self.is_alive():
            self._ended += _children(self.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
                os.kill(self.pid, signal.SIGCONT)

    def end(self, *, gently: bool) -> None:
        """End it, and wait until nothing of it runs. Not `gently`: as if its machine had lost power."""
        self._ended += _children(self.pid)
        if gently:
            self.ask_to_end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS_MAX)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        # Its launcher sees that the node is gone, ends all workers and what they started, and goes last.
        until = time.monotonic() + _END_SECONDS_MAX
        while left := [pid for pid in self._ended if old_sessions.is_alive(pid)]:
            if time.monotonic() > until:
                raise TimeoutError(f"of the node (pid {self.pid}), these processes do not end: {left}")
            time.sleep(_POLL_SECONDS)

    def __repr__(self) -> str:
        """Name it by what is known already."""
        known = f"{self._about['node_id']} at {self._about['address']}" if self._about else "not ready yet"
        return f"<node {self.number} (pid {self.pid}): {known}>"


def _command(given: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Turn arguments of Ray's names into words of the command line and variables of the environment."""
    wanted = {**_DEFAULTS, **given}
    words: list[str] = []
    environ: dict[str, str] = {}
    for name, value in wanted.items():
        if value is None:
            continue
        if name in _PLAIN:
            words += [f"--{name.replace('_', '-')}", str(value)]
        elif name == "resources":
            words += ["--resources", json.dumps(value)]
        elif name == "labels":
            words += ["--labels", ",".join(f"{key}={label}" for key, label in value.items())]
        elif name == "env_vars":
            environ.update({key: str(each) for key, each in value.items()})
        elif name == "_system_config":
            # The node looks there for what the head was not told.
            environ.update({f"EAGLERAY_{key}": _setting(each) for key, each in value.items()})
        elif name == "object_spilling_directory":
            words += ["--object-spilling-directory", str(value)]
        elif name not in _WITHOUT_EFFECT:
            raise TypeError(f"add_node() got an unexpected keyword argument {name!r}; it takes {', '.join(_TAKEN)}")
    return words, environ


#: What `add_node` takes that has an effect.
_TAKEN = (*_PLAIN, "resources", "labels", "env_vars", "object_spilling_directory", "_system_config")


def _setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _children(pid: int) -> list[int]:
    """List the processes that this one has started."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as about:
                if int(about.read().rpartition(b")")[2].split()[1]) == pid:
                    found.append(int(name))
    return found


def _shown_code(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
