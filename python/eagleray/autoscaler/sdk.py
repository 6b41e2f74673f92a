"""The functions that programs call on Ray's cluster launcher: what can be meant on one machine is done, the rest says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "bootstrap_config",
    "configure_logging",
    "create_or_update_cluster",
    "fillout_defaults",
    "get_docker_host_mount_location",
    "get_head_node_ip",
    "get_worker_node_ips",
    "register_callback_handler",
    "request_resources",
    "rsync",
    "run_on_cluster",
    "teardown_cluster",
]


def request_resources(
    num_cpus: Any = None,
    bundles: Any = None,
    bundle_label_selectors: Any = None,
) -> None:
    """Ask for room ahead of time. This machine has what it has, so that only the arguments are checked."""
    if num_cpus is not None and not isinstance(num_cpus, int):
        raise TypeError("num_cpus should be of type int.")
    for name, given in (("bundles", bundles), ("bundle_label_selectors", bundle_label_selectors)):
        if given is None:
            continue
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise TypeError(f"{name} should be a list of dicts, got {given!r}")


def configure_logging(
    log_style: str | None = None, color_mode: str | None = None, verbosity: int | None = None
) -> None:
    """Choose how the launcher writes. It does not run here, and writes nothing."""


def get_head_node_ip(cluster_config: Any) -> str:
    """Give the address of the machine that the program runs on: it is the head of its cluster, and all of it."""
    return "127.0.0.1"


def get_worker_node_ips(cluster_config: Any) -> list[str]:
    """List the other machines of a cluster: there are none."""
    return []


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: eagleray starts no machines. Run the program on the machine that has the cores, or start a node there "
        "with `eagleray start --head`."
    )


def create_or_update_cluster(cluster_config: Any, **_options: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("create_or_update_cluster")


def teardown_cluster(cluster_config: Any, **_options: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("teardown_cluster")


def run_on_cluster(cluster_config: Any, **_options: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("run_on_cluster")


def rsync(cluster_config: Any, **_options: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("rsync")


def bootstrap_config(cluster_config: Any, **_options: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("bootstrap_config")


def fillout_defaults(config: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("fillout_defaults")


def register_callback_handler(event_name: str, callback: Any) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("register_callback_handler")


def get_docker_host_mount_location(cluster_name: str) -> NoReturn:
    """Refuse: nothing here starts machines."""
    _refuse("get_docker_host_mount_location")
