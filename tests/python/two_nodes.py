"""Runs programs that are written for one node with caller and callee on different ones, where EAGLERAY_TEST_NODES=2.

What a program asks of `init` is then given to a node of its own, and the program joins that as one from another machine does: as a guest,
whose node has no workers. So whatever it starts runs on the other node, also what needs no CPU.
"""

import os
import time
from unittest import mock

import pytest

import eagleray
from eagleray._node import finding
from eagleray.cluster_utils import Cluster

#: Whether the tests run so.
IS_ON = os.environ.get("EAGLERAY_TEST_NODES", "1") == "2"

#: Arguments of `init` that are about the node, and what `add_node` calls them.
_OF_NODE = {
    name: name
    for name in (
        "num_cpus",
        "num_gpus",
        "resources",
        "labels",
        "object_store_memory",
        "object_spilling_directory",
        "_system_config",
    )
} | {"_memory": "memory"}
#: Of these, what the program's own node is told as well.
_OF_BOTH = ("_system_config",)
#: About a node that the program hosts itself.
_OF_HOST = ("_meminfo", "_temp_dir")
#: Of no use where workers are started by another node than the driver's.
_LEFT_OUT = ("_prestart",)
#: How long a cluster may take to be as new once a session has ended.
_CLEAN_SECONDS_MAX = 3.0

_init = eagleray.init


class _Kept:
    """The cluster of the latest session: used again for the next that asks for the same, if nothing is left in it."""

    def __init__(self):
        self.cluster = None
        self.wanted = None

    def get(self, wanted):
        if self.cluster is not None and (wanted != self.wanted or not self._is_clean()):
            self.end()
        if self.cluster is None:
            cluster = Cluster()
            cluster.add_node(**{"num_cpus": os.cpu_count(), "object_store_memory": None, **wanted})
            self.cluster, self.wanted = cluster, wanted
        return self.cluster

    def _is_clean(self):
        until = time.monotonic() + _CLEAN_SECONDS_MAX
        while time.monotonic() < until:
            if not all(node.is_alive() for node in self.cluster.list_all_nodes()):
                return False
            found = [node.status() for node in self.cluster.list_all_nodes()]
            if all(status["free"] == status["total"] and not status["actors"] for status in found):
                return True
            time.sleep(0.01)
        return False

    def end(self):
        if self.cluster is not None:
            cluster, self.cluster = self.cluster, None
            cluster.shutdown()


KEPT = _Kept()


def init(address=None, **options):
    """`eagleray.init`, over two nodes wherever it would host one."""
    is_elsewhere = address is not None or os.environ.get("RAY_ADDRESS") or os.environ.get("EAGLERAY_ADDRESS")
    if is_elsewhere or options.get("local_mode") or eagleray.is_initialized():
        return _init(address, **options)
    for name in _OF_HOST:
        if name in options:
            pytest.skip(f"init({name}=...) means a node that the program hosts")
    wanted = {_OF_NODE[name]: options.pop(name) for name in list(options) if name in _OF_NODE}
    for name in _LEFT_OUT:
        options.pop(name, None)
    cluster = KEPT.get(wanted)
    # As on a machine that has the token, and none of the cluster's nodes.
    elsewhere = mock.patch.object(finding, "of_cluster", return_value=[])
    token = mock.patch.dict(os.environ, EAGLERAY_TOKEN_FILE=cluster.head_node.token_file)
    with elsewhere, token:
        return _init(cluster.address, **{name: wanted[name] for name in _OF_BOTH if name in wanted}, **options)


def take_over():
    """Makes `init` of this process start sessions over two nodes."""
    # A program's `init` begins as its own does: what a fork inherits is the parent's.
    eagleray.init = init


def leave_one_node_out(items):
    """Skips the tests that mean one node."""
    for item in items:
        marker = item.get_closest_marker("one_node")
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=f"means one node: {marker.args[0]}"))
