"""Nodes that have an address each, as machines do: head, node and program in network namespaces of their own."""

import json
import re
import sys

import pytest
from tests.python.cluster.conftest import Machine
from tests.python.cluster.namespaces import Namespaces, NotPermitted
from tests.python.tools import need, unavailable

EAGLERAY = [sys.executable, "-m", "eagleray"]


@pytest.fixture
def machines():
    need("ip", "nsenter", "unshare")
    made = [Machine() for _ in range(3)]
    try:
        with Namespaces(3) as spaces:
            yield spaces, made
            for index, machine in enumerate(made):
                spaces.run(index, [*EAGLERAY, "stop"], env=machine.environ(), capture_output=True)
    except NotPermitted as error:
        unavailable(str(error))
    finally:
        for machine in made:
            machine.close()


def run(machines, index, *command, env=None):
    """What a command says that runs on one of the machines."""
    spaces, made = machines
    done = spaces.run(index, command, env=made[index].environ(**(env or {})), capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_three_machines_are_one_cluster(machines, family):
    spaces, _ = machines
    first, second, third = spaces.addresses if family == "IPv4" else spaces.addresses6
    said = run(machines, 0, *EAGLERAY, "start", "--head", "--node-ip-address", first, "--num-cpus", "1")
    address = re.search(r"On another machine: .*eagleray start --address (\S+) --token-file FILE", said).group(1)
    env = {"EAGLERAY_TOKEN_FILE": re.search(r"The token is in (\S+);", said).group(1)}
    run(machines, 1, *EAGLERAY, "start", "--address", address, "--num-cpus", "2", env=env)
    # By nothing but the head's address the second machine has found its own.
    nodes = json.loads(run(machines, 1, *EAGLERAY, "status", "--json"))["nodes"]
    assert [node["address"].rpartition(":")[0].strip("[]") for node in nodes] == [first, second]
    assert [node["total"][f"node:{ip}"] for node, ip in zip(nodes, (first, second), strict=True)] == [10_000, 10_000]
    program = """
import os, sys, eagleray as ray
context = ray.init(sys.argv[1])

@ray.remote(num_cpus=2)
def where():
    return ray.util.get_node_ip_address()

print(context["node_ip_address"], ray.get(where.remote(), timeout=30), ray.cluster_resources()["CPU"])
"""
    assert run(machines, 2, sys.executable, "-c", program, address, env=env).split() == [third, second, "3.0"]


def test_who_gives_no_address_is_not_reached_from_elsewhere(machines):
    spaces, _ = machines
    said = run(machines, 0, *EAGLERAY, "start", "--head", "--num-cpus", "1")
    port = re.search(r" at 127\.0\.0\.1:(\d+): ", said).group(1)
    assert "On another machine" not in said
    env = machines[1][1].environ(EAGLERAY_TOKEN_FILE=re.search(r"The token is in (\S+);", said).group(1))
    command = [*EAGLERAY, "start", "--address", f"{spaces.addresses[0]}:{port}"]
    refused = spaces.run(1, command, env=env, capture_output=True, check=False)
    assert refused.returncode == 1
    assert re.search(r"no head answers at .*: Connection refused", refused.stderr), refused.stderr
