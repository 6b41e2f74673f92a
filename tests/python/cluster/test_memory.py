"""`eagleray memory` shows the whole cluster, whichever node is asked: what other nodes hold was neither listed nor found by an audit."""

import json
import re

PROGRAM = """
import numpy as np
ray.init(address="auto", namespace="test")

@ray.remote(num_cpus=0, resources={"there": 1})
class Holder:
    def hold(self):
        self.ref = ray.put(np.zeros(300_000, dtype=np.uint8))
        return os.getpid(), [self.ref]

holder = Holder.options(name="holder", lifetime="detached").remote()
pid, (ref,) = ray.get(holder.hold.remote(), timeout=30)
print("holds", pid, ref.hex(), flush=True)
sys.stdin.readline()
"""

KILL = """
ray.init(address="auto", namespace="test")
ray.kill(ray.get_actor("holder"))
"""


def test_what_another_node_holds_is_listed_and_found_by_the_audit(machine, wait_until):
    address, _ = machine.head()
    machine.join(address, "--node-name", "second", "--resources", '{"there": 1}')
    program = machine.start(PROGRAM)
    pid, name = program.hear_until("holds").split()
    pid = int(pid)

    inventory = json.loads(machine.ok("memory", "--json"))
    assert (inventory["node"], inventory["silent_nodes"]) == (1, [])
    (there,) = inventory["others"]
    assert (there["node"], there["name"]) == (2, "second")
    (held,) = [row for row in objects_of(there, pid) if row["object_id"] == name]
    assert (held["is_owner"], held["owner_pid"], held["bytes"] > 200_000) == (True, pid, True)
    (borrowed,) = [row for row in objects_of(inventory, program.pid) if row["object_id"] == name]
    assert (borrowed["is_owner"], borrowed["owner_pid"]) == (False, pid), "its owner lives on the other node"

    first, _, second = machine.ok("memory").partition("\nnode 2 (second)\n")
    assert first.startswith("node 1 (")
    assert re.search(rf"^{name} +\d+ +\w+ +{pid} +{program.pid} ", first, re.M), first
    assert re.search(rf"^{name} +\d+ +\w+ +{pid} +{pid} ", second, re.M), second

    program.say("end")
    assert program.end()[0] == 0
    found = machine.command("memory", "--audit")
    assert found.returncode == 1, found.stdout + found.stderr
    assert re.search(rf"^node 2: process {pid} \(.*\) keeps \d+ objects$", found.stdout, re.M), found.stdout
    assert "node 2: of there, 0 of 1 are free" in found.stdout

    machine.run(KILL)
    wait_until(lambda: machine.command("memory", "--audit").returncode == 0, what="an audit without findings")
    assert machine.ok("memory", "--audit").startswith("Nothing is held")


def objects_of(node, pid):
    """What this process of the node has said that it holds."""
    (process,) = (process for process in node["processes"] if process["pid"] == pid)
    return process["objects"]
